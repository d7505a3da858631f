//! Joules that processors and a device use, as RAPL and NVML count them.
//!
//! Counters are of whole packages and devices, so they have what others use at the time and what idle ones use. Where a
//! counter cannot be read, as in most containers, there is no figure.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use zipfdb_bench_kernels::EnergyMeter;

use crate::Result;

/// Seconds that work is repeated: counters are updated every millisecond, or every tenth of a second.
const SECONDS_MIN: f64 = 1.0;

/// Counters of this machine.
pub struct Meter {
    zones: Vec<Zone>,
    device: Option<EnergyMeter>,
}

/// A package or its memory.
struct Zone {
    /// A file with microjoules.
    energy: PathBuf,
    /// Where the counter begins anew.
    range: u64,
}

/// Joules of one run.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Joules {
    /// Joules of all packages and their memory; none where RAPL is not readable.
    pub cpu: Option<f64>,
    /// Joules of the device; none without one.
    pub device: Option<f64>,
}

impl Meter {
    /// The counters that can be read.
    pub fn open() -> Meter {
        let mut zones = Vec::new();
        for entry in fs::read_dir("/sys/class/powercap").into_iter().flatten() {
            let Ok(path) = entry.map(|entry| entry.path()) else {
                continue;
            };
            let name = fs::read_to_string(path.join("name")).unwrap_or_default();
            // Cores are in their package, and memory is not.
            let is_counted = name.starts_with("package") || name.starts_with("dram");
            let range = number(&path.join("max_energy_range_uj"));
            let energy = path.join("energy_uj");
            if let (true, Some(range), Some(_)) = (is_counted, range, number(&energy)) {
                zones.push(Zone { energy, range });
            }
        }
        Meter {
            zones,
            device: EnergyMeter::open(0),
        }
    }

    /// Whether any counter can be read.
    pub fn is_readable(&self) -> bool {
        !self.zones.is_empty() || self.device.is_some()
    }

    /// Joules of a run, the mean over one second of runs; none without counters, and then nothing runs.
    pub fn measure(&self, mut run: impl FnMut() -> Result<()>) -> Result<Option<Joules>> {
        if !self.is_readable() {
            return Ok(None);
        }
        let zones = self.read();
        let device = self.device.as_ref().and_then(EnergyMeter::joules);
        let begin = Instant::now();
        let mut runs = 0.0;
        while begin.elapsed().as_secs_f64() < SECONDS_MIN {
            run()?;
            runs += 1.0;
        }
        let after = self.read();
        let mut cpu = None;
        for ((before, after), zone) in zones.into_iter().zip(after).zip(&self.zones) {
            let used = match after.checked_sub(before) {
                Some(used) => used,
                None => after + zone.range - before,
            };
            cpu = Some(cpu.unwrap_or(0.0) + used as f64 / 1e6 / runs);
        }
        let device_after = self.device.as_ref().and_then(EnergyMeter::joules);
        let device = device
            .zip(device_after)
            .map(|(before, after)| (after - before) / runs);
        Ok(Some(Joules { cpu, device }))
    }

    fn read(&self) -> Vec<u64> {
        let zones = self.zones.iter();
        zones
            .map(|zone| number(&zone.energy).unwrap_or(0))
            .collect()
    }
}

fn number(path: &PathBuf) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
