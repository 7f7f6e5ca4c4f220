import pytest

from server import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("eval"))
    yield s
    s.close()
