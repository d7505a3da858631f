//! The energy that a device has used, as NVML counts it.
//!
//! NVML comes with the driver and is loaded when asked for, so that programs run without it. It is for measurements only:
//! nothing that is computed depends on it.

use std::ffi::c_void;
use std::ptr;

use libloading::Library;

/// What every function of NVML returns if it worked.
const SUCCESS: i32 = 0;

type Device = *mut c_void;

// Functions of nvml.h. They are loaded as safe to call: pointers that are given here outlive the call.
type Init = extern "C" fn() -> i32;
type GetHandle = extern "C" fn(u32, *mut Device) -> i32;
type GetEnergy = extern "C" fn(Device, *mut u64) -> i32;

/// Counts the energy of one device.
pub struct EnergyMeter {
    library: Library,
    device: Device,
}

impl EnergyMeter {
    /// The device that NVML gives this number; none without NVML, or without such a device or its counter.
    pub fn open(number: u32) -> Option<EnergyMeter> {
        // SAFETY: NVML's initialisers do nothing but prepare the library, on any thread.
        let library = unsafe { Library::new("libnvidia-ml.so.1") }.ok()?;
        // SAFETY: the type is that of nvml.h, version 2 of the function.
        let init = unsafe { library.get::<Init>(b"nvmlInit_v2\0") }.ok()?;
        if init() != SUCCESS {
            return None;
        }
        let name = b"nvmlDeviceGetHandleByIndex_v2\0";
        // SAFETY: the type is that of nvml.h, version 2 of the function.
        let handle = unsafe { library.get::<GetHandle>(name) }.ok()?;
        let mut device = ptr::null_mut();
        if handle(number, &mut device) != SUCCESS {
            return None;
        }
        let meter = EnergyMeter { library, device };
        meter.joules().map(|_| meter)
    }

    /// Joules since the driver was loaded, in steps of the device's counter, some tens of milliseconds.
    pub fn joules(&self) -> Option<f64> {
        let name = b"nvmlDeviceGetTotalEnergyConsumption\0";
        // SAFETY: the type is that of nvml.h.
        let energy = unsafe { self.library.get::<GetEnergy>(name) }.ok()?;
        let mut millijoules = 0;
        let status = energy(self.device, &mut millijoules);
        (status == SUCCESS).then_some(millijoules as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_only_grows_where_it_is_counted() {
        if let Some(meter) = EnergyMeter::open(0) {
            assert!(meter.joules() <= meter.joules());
        }
        assert!(EnergyMeter::open(u32::MAX).is_none());
    }
}
