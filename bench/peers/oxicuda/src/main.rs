//! oxicuda-webgpu's side of script/bench: serves rows by name, as bench/peers/worker.py describes.
//!
//!     oxicuda-peer [--cpu] [--min-time SECONDS]
//!
//! Operands are on the device before the clock starts, but for in/ rows, whose uploads and readback it counts. As many
//! calls share a wait as take 30 ms, at most 200, as in Weft's own programs.

use std::io::{BufRead, Write};
use std::time::Instant;

use oxicuda_backend::{BackendTranspose, BinaryOp, ComputeBackend, ReduceOp, UnaryOp};
use oxicuda_webgpu::WebGpuBackend;
use oxicuda_webgpu::device::WebGpuDevice;

type Outcome<T> = Result<T, String>;

const CONVOLUTIONS: [&str; 9] = [
    "conv/1x64x56x56_64x3x3_s1",
    "conv/1x64x56x56_64x1x1_s1",
    "conv/1x256x14x14_256x3x3_s1",
    "conv/8x64x56x56_64x3x3_s1",
    "conv/8x64x56x56_256x1x1_s1",
    "conv/8x3x224x224_64x7x7_s2",
    "conv/8x128x28x28_128x3x3_s1",
    "conv/8x256x14x14_256x3x3_s1",
    "conv/8x512x7x7_512x3x3_s1",
];
const ATTENTIONS: [&str; 4] = [
    "attention/f32_8x256x256x64",
    "attention/f32_16x1024x1024x64",
    "attention/f32_16x1024x1024x64_causal",
    "attention/decode_f32_16x1x4096x64",
];

/// Seconds of the calls before a wait, and how many these may be.
const LONG_ENOUGH: f64 = 0.03;
const MOST: usize = 200;

struct Peer {
    backend: WebGpuBackend,
    min_time: f64,
    largest: usize, // product, and attention of a thousand rows: on CPU devices larger ones take ten seconds each
}

/// One row, ready to run: `call` records or does it once.
struct Work<'a> {
    call: Box<dyn Fn() -> Outcome<()> + 'a>,
    /// Ops that one call has, for rows of several; and calls before a wait, where that is not found by their time.
    items: usize,
    calls: Option<usize>,
    buffers: Vec<u64>,
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

fn numbers(row: &str) -> Vec<usize> {
    row.split(|c: char| !c.is_ascii_digit()).filter(|s| !s.is_empty()).filter_map(|s| s.parse().ok()).collect()
}

/// Values of about one, the same on every run.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i % 17) as f32 / 8.0 - 1.0).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// The bits of 0.25, 0.5, 0.75 and 1.0 as f16.
fn half_bytes(count: usize) -> Vec<u8> {
    const BITS: [u16; 4] = [0x3400, 0x3800, 0x3a00, 0x3c00];
    (0..count).flat_map(|i| BITS[i % 4].to_le_bytes()).collect()
}

impl Peer {
    fn empty(&self, size: usize, buffers: &mut Vec<u64>) -> Outcome<u64> {
        let made = self.backend.alloc(size).map_err(text)?;
        buffers.push(made);
        Ok(made)
    }

    fn upload(&self, data: &[u8], buffers: &mut Vec<u64>) -> Outcome<u64> {
        let made = self.empty(data.len(), buffers)?;
        self.backend.copy_htod(made, data).map_err(text)?;
        Ok(made)
    }

    fn floats(&self, count: usize, buffers: &mut Vec<u64>) -> Outcome<u64> {
        self.upload(&bytes(&values(count)), buffers)
    }

    fn product(&self, n: usize, a: u64, b: u64, c: u64) -> Outcome<()> {
        const NO: BackendTranspose = BackendTranspose::NoTrans;
        self.backend.gemm(NO, NO, n, n, n, 1.0, a, n, b, n, 0.0, c, n).map_err(text)
    }

    fn prepare(&self, row: &str) -> Outcome<Work<'_>> {
        const NO: BackendTranspose = BackendTranspose::NoTrans;
        let backend = &self.backend;
        let mut buffers = Vec::new();
        let (family, rest) = row.split_once('/').unwrap_or((row, ""));
        let of = numbers(rest);
        let mut items = 1;
        let mut calls = None;
        let call: Box<dyn Fn() -> Outcome<()> + '_> = match family {
            "matmul" if rest.starts_with("f32_") => {
                let n = of[1];
                let a = self.floats(n * n, &mut buffers)?;
                let b = self.floats(n * n, &mut buffers)?;
                let c = self.floats(n * n, &mut buffers)?;
                Box::new(move || self.product(n, a, b, c))
            }
            "matmul" => {
                let n = of[1];
                let a = self.upload(&half_bytes(n * n), &mut buffers)?;
                let b = self.upload(&half_bytes(n * n), &mut buffers)?;
                let c = self.upload(&half_bytes(n * n), &mut buffers)?;
                Box::new(move || backend.gemm_f16(NO, NO, n, n, n, 1.0, a, n, b, n, 0.0, c, n).map_err(text))
            }
            "batched_matmul" => {
                let (count, n) = (of[1], of[2]);
                let a = self.floats(count * n * n, &mut buffers)?;
                let b = self.floats(count * n * n, &mut buffers)?;
                let c = self.floats(count * n * n, &mut buffers)?;
                let s = n * n;
                Box::new(move || {
                    backend
                        .batched_gemm(NO, NO, n, n, n, 1.0, a, n, s, b, n, s, 0.0, c, n, s, count)
                        .map_err(text)
                })
            }
            "conv" => {
                let [n, c, h, w, k, fh, fw, stride] = of[..] else { return Err("no such row".into()) };
                let side = (h + 2 * (fh / 2) - fh) / stride + 1;
                let x = self.floats(n * c * h * w, &mut buffers)?;
                let f = self.floats(k * c * fh * fw, &mut buffers)?;
                let y = self.empty(n * k * side * side * 4, &mut buffers)?;
                Box::new(move || {
                    backend
                        .conv2d_forward(x, &[n, c, h, w], f, &[k, c, fh, fw], y, &[n, k, side, side], &[stride, stride],
                                        &[fh / 2, fw / 2])
                        .map_err(text)
                })
            }
            "attention" => {
                let (heads, queries, keys, dim) = (of[1], of[2], of[3], of[4]);
                let causal = rest.ends_with("_causal");
                let q = self.floats(heads * queries * dim, &mut buffers)?;
                let k = self.floats(heads * keys * dim, &mut buffers)?;
                let v = self.floats(heads * keys * dim, &mut buffers)?;
                let o = self.empty(heads * queries * dim * 4, &mut buffers)?;
                let scale = 1.0 / (dim as f64).sqrt();
                Box::new(move || {
                    backend.attention(q, k, v, o, 1, heads, queries, keys, dim, scale, causal).map_err(text)
                })
            }
            "softmax" => {
                let (rows, columns) = (of[0], of[1]);
                let x = self.floats(rows * columns, &mut buffers)?;
                let y = self.empty(rows * columns * 4, &mut buffers)?;
                Box::new(move || backend.softmax(x, y, &[rows, columns], 1).map_err(text))
            }
            "sum_rows" => {
                let (rows, columns) = (of[0], of[1]);
                let x = self.floats(rows * columns, &mut buffers)?;
                let y = self.empty(rows * 4, &mut buffers)?;
                Box::new(move || backend.reduce(ReduceOp::Sum, x, y, &[rows, columns], 1).map_err(text))
            }
            "sum_op" => {
                let n = of[0] << 20;
                let x = self.floats(n, &mut buffers)?;
                let y = self.empty(4, &mut buffers)?;
                Box::new(move || backend.reduce(ReduceOp::Sum, x, y, &[n], 0).map_err(text))
            }
            "add" => {
                let n = of[0] << 20;
                let a = self.floats(n, &mut buffers)?;
                let b = self.floats(n, &mut buffers)?;
                let y = self.empty(n * 4, &mut buffers)?;
                Box::new(move || backend.binary(BinaryOp::Add, a, b, y, n).map_err(text))
            }
            "relu_op" => {
                let n = of[0] << 20;
                let x = self.floats(n, &mut buffers)?;
                let y = self.empty(n * 4, &mut buffers)?;
                Box::new(move || backend.unary(UnaryOp::Relu, x, y, n).map_err(text))
            }
            "relu_chain" => {
                const OPS: usize = 1000;
                items = OPS;
                calls = Some(1);
                let x = self.floats(4096, &mut buffers)?;
                let y = self.empty(4096 * 4, &mut buffers)?;
                Box::new(move || {
                    for i in 0..OPS {
                        let (from, to) = if i % 2 == 0 { (x, y) } else { (y, x) };
                        backend.unary(UnaryOp::Relu, from, to, 4096).map_err(text)?;
                    }
                    Ok(())
                })
            }
            "relu_read" => {
                calls = Some(1);
                let x = self.floats(4096, &mut buffers)?;
                let y = self.empty(4096 * 4, &mut buffers)?;
                Box::new(move || {
                    backend.unary(UnaryOp::Relu, x, y, 4096).map_err(text)?;
                    backend.copy_dtoh(&mut [0u8; 4], y).map_err(text)
                })
            }
            "in" if rest.starts_with("matmul/") => {
                calls = Some(1);
                let n = of[1];
                let host = bytes(&values(n * n));
                let a = self.empty(n * n * 4, &mut buffers)?;
                let b = self.empty(n * n * 4, &mut buffers)?;
                let c = self.floats(n * n, &mut buffers)?;
                Box::new(move || {
                    backend.copy_htod(a, &host).map_err(text)?;
                    backend.copy_htod(b, &host).map_err(text)?;
                    self.product(n, a, b, c)?;
                    backend.copy_dtoh(&mut vec![0u8; n * n * 4], c).map_err(text)
                })
            }
            _ => return Err("no such row".into()),
        };
        Ok(Work { call, items, calls, buffers })
    }

    /// Seconds of one op, the mean over at least min_time.
    fn measure(&self, row: &str) -> Outcome<f64> {
        let work = self.prepare(row)?;
        let round = |calls: usize| -> Outcome<f64> {
            let start = Instant::now();
            for _ in 0..calls {
                (work.call)()?;
            }
            self.backend.synchronize().map_err(text)?;
            Ok(start.elapsed().as_secs_f64())
        };
        let long_enough = || -> Outcome<usize> {
            let mut calls = 1;
            loop {
                let took = round(calls)?;
                if took > LONG_ENOUGH || calls == MOST {
                    return Ok(calls);
                }
                calls = MOST.min((2 * calls).max((calls as f64 * 1.5 * LONG_ENOUGH / took) as usize));
            }
        };
        let timed = || -> Outcome<f64> {
            round(1)?; // compiles
            let calls = work.calls.map_or_else(long_enough, Ok)?;
            let start = Instant::now();
            let mut rounds = 0;
            while rounds == 0 || start.elapsed().as_secs_f64() < self.min_time {
                round(calls)?;
                rounds += 1;
            }
            Ok(start.elapsed().as_secs_f64() / (rounds * calls * work.items) as f64)
        };
        let found = timed();
        for buffer in &work.buffers {
            self.backend.free(*buffer).map_err(text)?;
        }
        found
    }

    fn rows(&self) -> Vec<String> {
        let mut rows: Vec<String> = Vec::new();
        for n in [256, 512, 1024, 2048, 4096].into_iter().filter(|n| *n <= self.largest) {
            rows.push(format!("matmul/f32_{n}"));
            rows.push(format!("in/matmul/f32_{n}"));
            if self.backend.supports_f16() {
                rows.push(format!("matmul/f16_{n}"));
            }
        }
        for name in ["batched_matmul/f32_64x128", "batched_matmul/f32_64x512", "softmax/1024x4096", "softmax/16384x4096",
                     "sum_rows/1024x4096", "sum_rows/16384x4096", "sum_op/4", "sum_op/16", "add/4", "add/16", "relu_op/4",
                     "relu_op/16", "relu_chain", "relu_read"] {
            rows.push(name.into());
        }
        rows.extend(CONVOLUTIONS.iter().chain(&ATTENTIONS).map(|s| s.to_string()));
        rows.retain(|r| self.largest > 512 || !r.contains("1024x1024"));
        rows
    }
}

fn quoted(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn main() -> Outcome<()> {
    let mut cpu = false;
    let mut min_time = 0.05;
    let mut arguments = std::env::args().skip(1);
    while let Some(a) = arguments.next() {
        match a.as_str() {
            "--cpu" => cpu = true,
            "--min-time" => min_time = arguments.next().and_then(|s| s.parse().ok()).ok_or("--min-time needs seconds")?,
            _ => return Err(format!("unknown argument {a}")),
        }
    }
    let adapter = WebGpuDevice::new().map_err(text)?.adapter_name.clone();
    let mut backend = WebGpuBackend::new();
    backend.init().map_err(text)?;
    let peer = Peer { backend, min_time, largest: if cpu { 512 } else { 4096 } };
    let rows: Vec<String> = peer.rows().iter().map(|r| quoted(r)).collect();
    println!(
        "{{\"worker\": \"oxicuda-webgpu\", \"version\": \"0.5.5\", \"adapter\": {}, \"toggles\": \"wgpu 29, bounds checks \
         as wgpu sets them; f32 operands on the device\", \"rows\": [{}]}}",
        quoted(&adapter),
        rows.join(", ")
    );
    for line in std::io::stdin().lock().lines() {
        let row = line.map_err(text)?;
        match peer.measure(&row) {
            Ok(seconds) => println!("{{\"row\": {}, \"seconds\": {:e}}}", quoted(&row), seconds),
            Err(e) => println!("{{\"row\": {}, \"error\": {}}}", quoted(&row), quoted(&e)),
        }
        std::io::stdout().flush().map_err(text)?;
    }
    Ok(())
}
