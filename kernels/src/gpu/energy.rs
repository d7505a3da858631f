//! The energy that a device has used, as NVML counts it.
//!
//! NVML comes with the driver and is loaded when asked for, so that programs run without it. It is for measurements only:
//! nothing that is computed depends on it.

use std::ffi::c_void;
use std::ptr;

use libloading::{Library, Symbol};

/// What every function of NVML returns if it worked.
const SUCCESS: i32 = 0;

type Device = *mut c_void;
type Init = unsafe extern "C" fn() -> i32;
type GetHandle = unsafe extern "C" fn(u32, *mut Device) -> i32;
type GetEnergy = unsafe extern "C" fn(Device, *mut u64) -> i32;

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
        let init: Symbol<'_, Init> = unsafe { library.get(b"nvmlInit_v2\0") }.ok()?;
        // SAFETY: it takes nothing, and may be called again.
        if unsafe { init() } != SUCCESS {
            return None;
        }
        // SAFETY: the type is that of nvml.h, version 2 of the function.
        let handle: Symbol<'_, GetHandle> =
            unsafe { library.get(b"nvmlDeviceGetHandleByIndex_v2\0") }.ok()?;
        let mut device = ptr::null_mut();
        // SAFETY: NVML is ready, and `device` outlives the call.
        if unsafe { handle(number, &mut device) } != SUCCESS {
            return None;
        }
        let meter = EnergyMeter { library, device };
        meter.joules().map(|_| meter)
    }

    /// Joules since the driver was loaded, in steps of the device's counter, some tens of milliseconds.
    pub fn joules(&self) -> Option<f64> {
        // SAFETY: the type is that of nvml.h.
        let energy: Symbol<'_, GetEnergy> =
            unsafe { self.library.get(b"nvmlDeviceGetTotalEnergyConsumption\0") }.ok()?;
        let mut millijoules = 0;
        // SAFETY: NVML gave the device and is still loaded, and `millijoules` outlives the call.
        let status = unsafe { energy(self.device, &mut millijoules) };
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
