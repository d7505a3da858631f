//! Large arrays on large pages of memory.
//!
//! Invariant: this is advice only. What an array holds never depends on it, and where there are no huge pages, or the
//! system wants none, nothing happens.
//!
//! Work that jumps about in tens of megabytes asks for the page of nearly every place anew. With pages of 2 MiB instead of
//! 4 KiB the processor knows all of them at once, and 512 times fewer have to be prepared when memory is first written.

/// Smaller arrays are left alone.
#[cfg(target_os = "linux")]
const BYTES_MIN: usize = 4 << 20;

/// Asks for huge pages for what `array` has room for. To be called before it is written to, for pages that are there
/// already stay as they are.
pub(crate) fn on_huge_pages<T>(array: Vec<T>) -> Vec<T> {
    advise(&array);
    array
}

/// Makes room for `more` items behind those of `array`; when it grows, the capacity at least doubles if the array is full. Large
/// arrays get it on huge pages.
#[inline]
pub fn reserve_on_huge_pages<T>(array: &mut Vec<T>, more: usize) {
    if array.capacity() - array.len() < more {
        grow(array, more);
    }
}

#[cold]
fn grow<T>(array: &mut Vec<T>, more: usize) {
    // The system moves large arrays without a copy.
    array.reserve_exact(more.max(array.capacity()));
    advise(array);
}

fn advise<T>(array: &Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let page = rustix::param::page_size();
        let bytes = array.capacity() * size_of::<T>();
        if bytes >= BYTES_MIN {
            let start = array.as_ptr().cast::<u8>().cast_mut();
            let skipped = start.align_offset(page).min(bytes);
            let length = (bytes - skipped) / page * page;
            let first = start.wrapping_add(skipped).cast();
            // SAFETY: the pages lie inside an allocation that `array` owns, and this advice leaves what they hold.
            let advised = unsafe { madvise(first, length, Advice::LinuxHugepage) };
            if let Err(error) = advised {
                tracing::trace!("madvise: {error}");
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = array;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_any_size_stay_what_they_are() {
        for items in [0, 1, 1_000, (4 << 20) / 8, 1_000_003] {
            let array = on_huge_pages((0..items).collect::<Vec<u64>>());
            assert!(array.into_iter().eq(0..items));
            assert!(
                on_huge_pages(Vec::<u8>::with_capacity(items as usize)).capacity()
                    >= items as usize
            );
        }
    }

    #[test]
    fn arrays_keep_their_items_while_they_grow() {
        let mut array = Vec::new();
        for item in 0..1_000_003u64 {
            reserve_on_huge_pages(&mut array, 1);
            array.push(item);
        }
        let room = array.capacity() - array.len();
        reserve_on_huge_pages(&mut array, room + 1);
        assert!(array.capacity() > 1_000_003 + room);
        assert!(array.into_iter().eq(0..1_000_003));
    }
}
