"""The evaluation server (tests/tools/eval_server.cpp) as a Python object: one process, one device, many expressions."""

import itertools
import json
import os
import pathlib
import subprocess

import numpy as np


class EvalError(Exception):
    """What the server answered instead of a result."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Server:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.ids = itertools.count()
        self.process = subprocess.Popen(
            [os.environ["WEFT_EVAL_SERVER"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, request):
        request["id"] = next(self.ids)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the server ended with {self.process.wait()} on {request}"
        answer = json.loads(line)
        assert answer["id"] == request["id"]
        return answer

    def eval(self, expression, allow_downcast=False, stream=None, **inputs):
        """Evaluates over numpy arrays and numbers; returns (array, the server's whole answer). `stream`: in blocks, with
        these options."""
        sent = {}
        for name, value in inputs.items():
            if isinstance(value, np.ndarray) or isinstance(value, np.generic):
                path = self.folder / f"{name}.npy"
                np.save(path, value)
                sent[name] = str(path)
            elif isinstance(value, pathlib.Path):
                sent[name] = str(value)
            else:
                sent[name] = value
        out = self.folder / "out.npy"
        out.unlink(missing_ok=True)
        request = {"expr": expression, "inputs": sent, "out": str(out), "allow_downcast": allow_downcast}
        if stream is not None:
            request["stream"] = stream
        answer = self.ask(request)
        if not answer["ok"]:
            assert not out.exists(), "a failed evaluation left a file"
            raise EvalError(answer["code"], answer["error"])
        return np.load(out, allow_pickle=False), answer

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0, "the server did not end well"
