//! Compiles every CUDA kernel that only comparisons run for the architectures that are named, without a device.
//!
//! `cargo run -p zipfdb-bench-kernels --example compile_bench_kernels -- sm_75 sm_80 sm_90`; needs NVRTC only.

use std::io::{self, Write};
use std::process::ExitCode;

use zipfdb_bench_kernels::compile_all;

fn main() -> ExitCode {
    let architectures: Vec<String> = std::env::args().skip(1).collect();
    if architectures.is_empty() {
        eprintln!("usage: compile_bench_kernels sm_90 ...");
        return ExitCode::from(2);
    }
    for architecture in architectures {
        match compile_all(&architecture) {
            Ok(compiled) => {
                for (name, bytes) in compiled {
                    // Where the output is closed, the rest is compiled nevertheless.
                    let _ = writeln!(io::stdout(), "{architecture} {name}: {bytes} bytes");
                }
            }
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
