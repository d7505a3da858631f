//! The emulator against the definition of CUDA, and its mistakes detected.
//!
//! Each kernel of `kernels/emulator/tests.cu` stands for one promise. Nothing
//! here tests kernels of the database.

#![allow(clippy::unwrap_used)]

use super::super::driver::{Argument, Driver, Kernel, Launch, Source};
use super::super::error::GpuError;
use super::build::kernels;
use super::{Check, Emulator};

static SOURCE: Source = Source {
    name: "tests.cu",
    text: include_str!("../../../emulator/tests.cu"),
    headers: &[],
    constants: &[],
};

const MISTAKE_WORDS: u64 = 16;

fn kernel(name: &'static str) -> Kernel {
    SOURCE.kernel(name)
}

/// Runs with a device of each check, if there is a compiler.
fn on_devices(mut run: impl FnMut(&Emulator)) {
    Emulator::for_each_check().for_each(|emulator| run(&emulator));
}

/// Runs with a device that finds bad accesses, if there is a compiler and it can.
fn on_sanitized(run: impl FnOnce(&Emulator)) {
    if let Some(emulator) = Emulator::start(Check::Memory)
        && emulator.is_sanitized()
    {
        run(&emulator);
    }
}

/// Runs with a device of each check under each of `seeds`, if there is a compiler.
fn under_seeds(seeds: impl IntoIterator<Item = u64>, mut run: impl FnMut(&Emulator)) {
    for seed in seeds {
        for check in [Check::Memory, Check::Races] {
            match Emulator::with_seed(check, seed) {
                Some(emulator) => run(&emulator),
                None => return,
            }
        }
    }
}

fn put<T: Number>(emulator: &Emulator, values: &[T]) -> Argument<'static> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.bytes()).collect();
    let address = emulator.allocate(bytes.len()).unwrap();
    emulator.upload(address, &bytes).unwrap();
    Argument::U64(address)
}

fn get<T: Number>(emulator: &Emulator, from: Argument, count: usize) -> Vec<T> {
    let Argument::U64(address) = from else {
        panic!("not an address");
    };
    let mut bytes = vec![0; count * size_of::<T>()];
    emulator.download(address, &mut bytes).unwrap();
    bytes.chunks(size_of::<T>()).map(T::from_bytes).collect()
}

trait Number: Copy {
    fn bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
}

impl Number for u32 {
    fn bytes(self) -> Vec<u8> {
        self.to_ne_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_ne_bytes(bytes.try_into().unwrap())
    }
}

impl Number for u64 {
    fn bytes(self) -> Vec<u8> {
        self.to_ne_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_ne_bytes(bytes.try_into().unwrap())
    }
}

fn launch(emulator: &Emulator, name: &'static str, shape: [u32; 2], arguments: &[Argument]) {
    try_launch(emulator, name, shape, arguments).unwrap();
}

fn try_launch(
    emulator: &Emulator,
    name: &'static str,
    [blocks, threads]: [u32; 2],
    arguments: &[Argument],
) -> Result<(), GpuError> {
    emulator.launch(kernel(name), Launch { blocks, threads }, arguments)
}

/// Numbers without a pattern.
fn numbers(count: usize, seed: u64) -> impl Iterator<Item = u64> {
    (1..=count as u64).map(move |index| {
        let mixed = (index + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    })
}

fn narrow(count: usize, seed: u64) -> Vec<u32> {
    numbers(count, seed)
        .map(|number| (number >> 32) as u32)
        .collect()
}

/// The lane that a shuffle of lane `lane` reads: PTX ISA 9.7.9.6, `shfl.sync`.
fn shuffle_source(kind: usize, lane: u32, operand: u32, width: u32) -> u32 {
    let segment_mask = (32 - width) & 31;
    let last = (lane & segment_mask) | (31 & !segment_mask);
    let first = lane & segment_mask;
    let (source, is_inside) = match kind {
        0 => {
            let source = first | (operand & !segment_mask & 31);
            (source, true)
        }
        1 => {
            let source = lane.wrapping_sub(operand);
            (source, source.cast_signed() >= first.cast_signed())
        }
        2 => (lane + operand, lane + operand <= last),
        _ => (lane ^ operand, lane ^ operand <= last),
    };
    if is_inside { source } else { lane }
}

#[test]
fn shuffles_read_the_lane_that_ptx_says() {
    on_devices(|emulator| {
        let threads = 64;
        let wide: Vec<u64> = numbers(threads, 1).collect();
        let narrow = narrow(threads, 2);
        let inputs = [put(emulator, &narrow), put(emulator, &wide)];
        let outputs = [
            put(emulator, &vec![0_u32; 4 * threads]),
            put(emulator, &vec![0_u64; 4 * threads]),
        ];
        for width in [1, 2, 8, 32] {
            for operand in [0, 1, 3, 8, 17, 31] {
                let operands = [Argument::U32(operand), Argument::U32(width)];
                for (index, name) in ["shuffles_u32_kernel", "shuffles_u64_kernel"]
                    .iter()
                    .enumerate()
                {
                    let arguments = [inputs[index], operands[0], operands[1], outputs[index]];
                    launch(emulator, name, [1, 64], &arguments);
                }
                let found: Vec<u32> = get(emulator, outputs[0], 4 * threads);
                let found_wide: Vec<u64> = get(emulator, outputs[1], 4 * threads);
                for at in 0..4 * threads {
                    let (kind, thread) = (at / threads, at % threads);
                    let lane = (thread % 32) as u32;
                    let source = shuffle_source(kind, lane, operand, width) as usize;
                    let source = thread / 32 * 32 + source;
                    let case =
                        format!("kind {kind}, lane {lane}, operand {operand}, width {width}");
                    assert_eq!(found[at], narrow[source], "{case}");
                    assert_eq!(found_wide[at], wide[source], "{case}");
                }
            }
        }
    });
}

#[test]
fn votes_are_among_the_lanes_of_the_mask() {
    under_seeds(1..4, |emulator| {
        let values: Vec<u32> = numbers(96, 3)
            .map(|number| (number >> 40) as u32 % 11)
            .collect();
        for mask in [u32::MAX, 0xFFFF, 0x5555_5555, 1, 0xF0F0_1234] {
            let out = put(emulator, &[0_u32; 5 * 96]);
            let arguments = [put(emulator, &values), Argument::U32(mask), out];
            launch(emulator, "votes_kernel", [1, 96], &arguments);
            let found: Vec<u32> = get(emulator, out, 5 * 96);
            for (thread, row) in found.chunks(5).enumerate() {
                let warp = &values[thread / 32 * 32..][..32];
                let own_mask = match mask >> (thread % 32) & 1 {
                    1 => mask,
                    _ => !mask,
                };
                let lanes = |holds: &dyn Fn(u32) -> bool| -> u32 {
                    let bit = |lane: usize| u32::from(holds(warp[lane])) << lane;
                    (0..32).map(bit).sum::<u32>() & own_mask
                };
                let expected = [
                    lanes(&|value| value & 1 != 0),
                    u32::from(lanes(&|value| value & 2 != 0) != 0),
                    u32::from(lanes(&|value| value & 4 != 0) == own_mask),
                    lanes(&|value| value == values[thread]),
                    1 << (thread % 32),
                ];
                assert_eq!(row, expected, "thread {thread}, mask {mask:08x}");
            }
        }
    });
}

#[test]
fn integer_functions_are_as_defined() {
    on_devices(|emulator| {
        let mut values: Vec<u64> = numbers(480, 4).collect();
        let edges = [0, 1, u64::MAX, 1 << 31, 1 << 32, 1 << 63, 31, 32];
        values.extend(
            edges
                .iter()
                .flat_map(|&a| [a, 0])
                .chain(edges.iter().flat_map(|&b| [7, b])),
        );
        let threads = values.len() / 2;
        let out = put(emulator, &vec![0_u64; 16 * threads]);
        let arguments = [put(emulator, &values), out];
        launch(emulator, "bits_kernel", [1, threads as u32], &arguments);
        let found: Vec<u64> = get(emulator, out, 16 * threads);
        for (row, pair) in found.chunks(16).zip(values.chunks(2)) {
            let (a, b) = (pair[0], pair[1]);
            let (low, high) = (a as u32, (a >> 32) as u32);
            let first_set = |zeros: u32, width: u32| u64::from((zeros + 1) % (width + 1));
            let both = u64::from(high) << 32 | u64::from(low);
            let expected = [
                low.count_ones().into(),
                a.count_ones().into(),
                first_set(low.trailing_zeros(), 32),
                first_set(a.trailing_zeros(), 64),
                low.leading_zeros().into(),
                a.leading_zeros().into(),
                low.reverse_bits().into(),
                a.reverse_bits(),
                (u64::from(low) * u64::from(high)) >> 32,
                ((u128::from(a) * u128::from(b)) >> 64) as u64,
                both << (b & 31) >> 32,
                both >> (b & 31) & 0xFFFF_FFFF,
                a.min(b),
                low.max(high).into(),
                i64::from((low as i32).min(high as i32)) as u64,
                (a as i64).max(b as i64) as u64,
            ];
            assert_eq!(row, expected, "{a:x} {b:x}");
        }
    });
}

#[test]
fn atomics_lose_no_change_in_any_order() {
    under_seeds(1..8, |emulator| {
        let values: Vec<u32> = narrow(256, 5).iter().map(|value| value >> 4).collect();
        let narrow_start = [1, u32::MAX, 0, u32::MAX, 0, 0, 0, 9];
        let wide_start = narrow_start.map(|start| u64::from(start) << 8);
        let cells = (put(emulator, &narrow_start), put(emulator, &wide_start));
        let extremes = put(emulator, &[0, i32::MAX as u32, i32::MIN as u32]);
        let difference = put(emulator, &[7_u32]);
        let arguments = [
            put(emulator, &values),
            cells.0,
            cells.1,
            extremes,
            difference,
        ];
        launch(emulator, "atomics_kernel", [1, 256], &arguments);
        let found: Vec<u32> = get(emulator, cells.0, 8);
        let found_wide: Vec<u64> = get(emulator, cells.1, 8);
        let sum = values.iter().copied().fold(0, u32::wrapping_add);
        let wide_sum: u64 = values.iter().map(|&value| u64::from(value)).sum();
        let [smallest, largest] =
            [values.iter().min(), values.iter().max()].map(|value| *value.unwrap());
        let and = values.iter().fold(u32::MAX, |a, b| a & b);
        let or = values.iter().fold(0, |a, b| a | b);
        let xor = values.iter().fold(0, |a, b| a ^ b);
        let last = found[6];
        assert!(values.contains(&last));
        let expected = [
            sum.wrapping_add(1),
            smallest,
            largest,
            and,
            or,
            xor,
            last,
            sum.wrapping_add(9),
        ];
        assert_eq!(found, expected);
        let wide = |value: u32| u64::from(value) << 8;
        let last = found_wide[6];
        assert!(values.contains(&((last >> 8) as u32)));
        let sums = [1, 9].map(|start| (wide_sum + start) << 8);
        let expected = [
            sums[0],
            wide(smallest),
            wide(largest),
            wide(and),
            wide(or),
            wide(xor),
            last,
            sums[1],
        ];
        assert_eq!(found_wide, expected);
        assert_eq!(get::<u32>(emulator, extremes, 3), [sum, smallest, largest]);
        assert_eq!(
            get::<u32>(emulator, difference, 1),
            [7_u32.wrapping_sub(sum)]
        );
    });
}

#[test]
fn barriers_separate_what_is_before_from_what_is_after() {
    under_seeds(1..8, |emulator| {
        for threads in [1_usize, 33, 256] {
            let blocks = 9;
            let values: Vec<u32> = numbers(blocks * threads, 6)
                .map(|number| (number >> 40) as u32 % 101)
                .collect();
            let (sums, votes) = (
                put(emulator, &vec![0_u32; values.len()]),
                put(emulator, &vec![0_u32; 3 * blocks]),
            );
            let shape = [blocks as u32, threads as u32];
            launch(
                emulator,
                "block_scan_kernel",
                shape,
                &[put(emulator, &values), sums, votes],
            );
            let (sums, votes) = (
                get::<u32>(emulator, sums, values.len()),
                get::<u32>(emulator, votes, 3 * blocks),
            );
            for (block, values) in values.chunks(threads).enumerate() {
                let mut sum = 0;
                for (found, value) in sums[block * threads..].iter().zip(values) {
                    sum += value;
                    assert_eq!(*found, sum);
                }
                let odd = values.iter().filter(|value| *value & 1 == 1).count() as u32;
                let expected = [
                    odd,
                    values.contains(&0).into(),
                    values.iter().all(|&value| value < 100).into(),
                ];
                assert_eq!(votes[3 * block..][..3], expected);
            }
        }
    });
}

#[test]
fn blocks_that_wait_for_earlier_blocks_make_progress() {
    let tiles = 50;
    under_seeds(1..30, |emulator| {
        let values = narrow(tiles, 7);
        let (states, next) = (put(emulator, &vec![0_u64; tiles]), put(emulator, &[0_u32]));
        let prefixes = put(emulator, &vec![0_u64; tiles]);
        let arguments = [put(emulator, &values), states, next, prefixes];
        launch(emulator, "look_back_kernel", [tiles as u32, 32], &arguments);
        let mut sum = 0;
        for (found, value) in get::<u64>(emulator, prefixes, tiles).iter().zip(values) {
            sum += u64::from(value);
            assert_eq!(*found, sum);
        }
    });
}

fn last_of_race(seed: u64) -> Option<u32> {
    let emulator = Emulator::with_seed(Check::Memory, seed)?;
    let last = put(&emulator, &[0_u32]);
    launch(&emulator, "racy_kernel", [4, 64], &[last]);
    Some(get(&emulator, last, 1)[0])
}

#[test]
fn a_race_ends_differently_under_other_seeds_only() {
    let results: Vec<u32> = (0..30).map_while(last_of_race).collect();
    let again: Vec<u32> = (0..30).map_while(last_of_race).collect();
    assert_eq!(results, again);
    let mut distinct = results.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(results.is_empty() || distinct.len() > 10, "{results:?}");
}

/// Every one of `parts` is in what the emulator says to a mistake, as are kernel and seed. The check that finds it, or
/// none if each does.
#[track_caller]
fn assert_reported(mistake: u32, found_by: Option<Check>, parts: &[&str]) {
    for check in [Check::Memory, Check::Races] {
        let seed = 40 + u64::from(mistake);
        let Some(emulator) = Emulator::with_seed(check, seed) else {
            return;
        };
        if found_by.is_some_and(|found_by| found_by != check || !emulator.is_sanitized()) {
            continue;
        }
        let memory = put(&emulator, &[0_u32; MISTAKE_WORDS as usize]);
        let arguments = [Argument::U32(mistake), memory, Argument::U64(MISTAKE_WORDS)];
        let error = try_launch(&emulator, "mistakes_kernel", [1, 64], &arguments).unwrap_err();
        let GpuError::Call {
            reason: message, ..
        } = error
        else {
            panic!("{error}");
        };
        let kernel = format!("of mistakes_kernel in tests.cu, seed {seed}");
        for part in parts.iter().chain([&&*kernel, &"in block 0 of 1, thread "]) {
            assert!(message.contains(part), "no `{part}` in:\n{message}");
        }
        let later = emulator.synchronize().unwrap_err().to_string();
        assert_eq!(later, format!("emulator: synchronize failed: {message}"));
    }
}

#[test]
fn accesses_outside_of_global_memory_are_found() {
    assert_reported(
        0,
        Some(Check::Memory),
        &[
            "heap-buffer-overflow",
            "WRITE of size 4",
            "thread 5 of 64",
            "tests.cu:",
        ],
    );
    assert_reported(
        1,
        Some(Check::Memory),
        &["heap-buffer-overflow", "READ of size 4", "thread 6 of 64"],
    );
}

#[test]
fn accesses_outside_of_shared_memory_are_found() {
    assert_reported(
        2,
        Some(Check::Memory),
        &["index 4 out of bounds for type", "tests.cu:"],
    );
    assert_reported(
        3,
        Some(Check::Memory),
        &["heap-buffer-overflow", "WRITE of size 4", "thread 7 of 64"],
    );
}

#[test]
fn accesses_outside_of_local_memory_are_found() {
    assert_reported(
        14,
        Some(Check::Memory),
        &["stack-buffer-overflow", "READ of size 4"],
    );
}

#[test]
fn undefined_integer_operations_are_found() {
    assert_reported(
        4,
        Some(Check::Memory),
        &["misaligned address", "thread 8 of 64"],
    );
    assert_reported(5, Some(Check::Memory), &["signed integer overflow"]);
    assert_reported(15, Some(Check::Memory), &["shift exponent 32 is too large"]);
}

#[test]
fn barriers_that_some_threads_miss_are_found() {
    assert_reported(6, None, &["barrier divergence", "exit"]);
    assert_reported(
        7,
        None,
        &["barrier divergence", "wait at the barrier at tests.cu:"],
    );
}

#[test]
fn wrong_masks_of_warp_operations_are_found() {
    assert_reported(
        8,
        None,
        &["__syncwarp: mask fffffffe lacks the caller, lane 0"],
    );
    assert_reported(9, None, &["exit"]);
    assert_reported(
        10,
        None,
        &["__ballot_sync", "waits in __ballot_sync of lanes ffffffff"],
    );
    assert_reported(11, None, &["waits"]);
}

#[test]
fn threads_that_wait_for_ever_are_found() {
    assert_reported(12, None, &["no progress"]);
    assert_reported(13, None, &["deadlock", "waits in __syncwarp of lanes"]);
}

/// What is wrong with the order of accesses in `orders_kernel`, if something is.
fn race(order: u32, seed: u64) -> Option<String> {
    let emulator = Emulator::with_seed(Check::Races, seed)?;
    let memory = put(&emulator, &[0_u32; 129]);
    let arguments = [Argument::U32(order), memory, put(&emulator, &[0_u32])];
    let result = try_launch(&emulator, "orders_kernel", [2, 64], &arguments);
    result.err().map(|error| error.to_string())
}

#[test]
fn accesses_that_nothing_orders_are_races() {
    let compiler = Emulator::start(Check::Races);
    for order in [0, 3, 4, 6, 7, 9, 13] {
        let Some(emulator) = &compiler else {
            return;
        };
        let message = race(order, 1).unwrap_or_else(|| panic!("order {order} is none"));
        let place = if emulator.is_sanitized() {
            "at tests.cu:"
        } else {
            "at an unknown place"
        };
        for part in [
            "race: 4 bytes that block ",
            place,
            "of orders_kernel in tests.cu, seed 1",
        ] {
            assert!(message.contains(part), "no `{part}` in:\n{message}");
        }
    }
}

#[test]
fn barriers_and_acquires_order_accesses() {
    for seed in 1..10 {
        for order in [1, 2, 5, 8, 10, 11, 12] {
            assert_eq!(race(order, seed), None, "order {order}");
        }
    }
}

#[test]
fn use_after_free_is_found() {
    on_sanitized(|emulator| {
        let values = put(emulator, &[0_u32; 8]);
        let Argument::U64(address) = values else {
            panic!("not an address");
        };
        emulator.free(address);
        let error = try_launch(
            emulator,
            "add_kernel",
            [1, 8],
            &[values, Argument::U64(8), Argument::U32(1)],
        );
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("heap-use-after-free")
        );
    });
}

#[test]
fn copies_outside_of_memory_are_found() {
    for call in 0..4 {
        on_sanitized(|emulator| {
            let [a, b] = [0, 1].map(|_| emulator.allocate(100).unwrap());
            let error = match call {
                0 => emulator.upload(a, &[0; 101]),
                1 => emulator.download(a, &mut [0; 101]),
                2 => emulator.copy(a, b, 101),
                _ => emulator.fill(a + 1, 0, 100),
            };
            assert!(
                error
                    .unwrap_err()
                    .to_string()
                    .contains("heap-buffer-overflow")
            );
        });
    }
}

#[test]
fn a_second_free_is_reported_to_the_next_call() {
    on_devices(|emulator| {
        let address = emulator.allocate(1).unwrap();
        emulator.free(address);
        emulator.synchronize().unwrap();
        emulator.free(address);
        let error = emulator.synchronize().unwrap_err();
        assert_eq!(
            error.to_string(),
            "emulator: synchronize failed: free of memory that is not allocated"
        );
    });
}

#[test]
fn memory_is_what_was_written_and_garbage_before() {
    let mut garbage = Vec::new();
    for seed in [1, 2, 1] {
        let Some(emulator) = &Emulator::with_seed(Check::Races, seed) else {
            return;
        };
        let [a, b] = [0, 1].map(|_| emulator.allocate(1000).unwrap());
        let mut bytes = vec![0; 1000];
        emulator.download(a, &mut bytes).unwrap();
        assert!(bytes.iter().any(|byte| *byte != bytes[0]));
        garbage.push(bytes.clone());
        emulator.fill(a, 0xAB, 1000).unwrap();
        emulator.upload(a + 3, b"text").unwrap();
        emulator.copy(b, a + 2, 900).unwrap();
        emulator.download(b, &mut bytes[..7]).unwrap();
        assert_eq!(bytes[..7], *b"\xABtext\xAB\xAB");
        emulator.free(a);
        emulator.free(b);
    }
    if let [first, second, third] = &garbage[..] {
        assert_ne!(first, second);
        assert_eq!(first, third);
    }
}

#[test]
fn launches_that_do_not_fit_the_kernel_are_refused() {
    on_devices(|emulator| {
        let values = put(emulator, &[5_u32; 3]);
        let refused = |name, shape, arguments: &[Argument]| {
            let error = try_launch(emulator, name, shape, arguments).unwrap_err();
            error.to_string()
        };
        let (size, add) = (Argument::U64(3), Argument::U32(2));
        for (message, expected) in [
            (
                refused("none_kernel", [1, 1], &[]),
                "emulator: launch failed: no kernel none_kernel in tests.cu",
            ),
            (
                refused("add_kernel", [1, 1], &[values, size]),
                "emulator: launch failed: add_kernel in tests.cu has 3 parameters, and 2 arguments are given",
            ),
            (
                refused("add_kernel", [1, 1], &[values, add, add]),
                "emulator: launch failed: parameter 1 of add_kernel in tests.cu has 8 bytes, and its argument 4",
            ),
            (
                refused("atomics_kernel", [1, 257], &[values; 5]),
                "emulator: launch failed: atomics_kernel in tests.cu cannot be launched with 1 blocks of 257 threads, but with up to 256",
            ),
        ] {
            assert_eq!(message, expected);
        }
        // None of these ended it.
        launch(emulator, "add_kernel", [1, 4], &[values, size, add]);
        assert_eq!(get::<u32>(emulator, values, 3), [7; 3]);
    });
}

#[test]
fn a_source_that_does_not_compile_says_where() {
    static BROKEN: Source = Source {
        name: "broken.cu",
        text: "#include \"device.cuh\"\nextern \"C\" __global__ void broken_kernel(u32 a) {\n    b = a;\n}\n",
        headers: &[],
        constants: &[],
    };
    static DEFINED: Source = Source {
        name: "defined.cu",
        text: "#include \"device.cuh\"\nextern \"C\" __global__ void defined_kernel(u32* a) { *a += DEFINED; }\n",
        headers: &[],
        constants: &[("DEFINED", 1000)],
    };
    on_devices(|emulator| {
        let broken = BROKEN.kernel("broken_kernel");
        let launch = Launch {
            blocks: 1,
            threads: 1,
        };
        let error = emulator.launch(broken, launch, &[Argument::U32(1)]);
        assert!(error.unwrap_err().to_string().contains("broken.cu:3:"));
        let values = put(emulator, &[5_u32]);
        let defined = DEFINED.kernel("defined_kernel");
        emulator.launch(defined, launch, &[values]).unwrap();
        assert_eq!(get::<u32>(emulator, values, 1), [1005]);
    });
}

#[test]
fn kernels_are_found_in_their_source() {
    let text = "// a __global__ void no(\n#define X __global__ void not_this(\n\
        extern \"C\" __global__ void a_kernel(u32 x) {}\n\
        extern \"C\" __global__ void __launch_bounds__(min(A, B), 2)\n    b_kernel(u32* y) {}\n\
        extern \"C\" __global__ __launch_bounds__(C) void c_kernel() {}\n";
    let expected = [
        ("a_kernel", "1024"),
        ("b_kernel", "min(A, B)"),
        ("c_kernel", "C"),
    ];
    assert_eq!(kernels(text), expected);
}
