//! The parameters of kernels, as their `.cu` files declare them.
//!
//! The invariant: an argument that passes here has the kind and the size of its parameter, and an array has items that can be
//! taken as some of those that the kernel takes it for, as a `u64` is two `u32`. That an array is long enough is for the wrapper of the launch to see to.
//!
//! A kernel is declared once, in its source, so nothing here can disagree with what is compiled: parameters are read from
//! that text, and drivers compare them with the function that was loaded.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use super::driver::{Argument, Kernel, Source};

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// As it is declared: type and name.
    declared: &'static str,
    pub(crate) kind: ParameterKind,
}

/// What a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// A number of so many bytes.
    Number(usize),
    /// The address of numbers of so many bytes, or of structs, whose size only the compiler knows.
    Array(Option<usize>),
    /// Numbers in a struct.
    Struct,
}

impl ParameterKind {
    /// Its bytes; none for a struct, which only the compiler knows.
    pub(crate) fn size(self) -> Option<usize> {
        match self {
            ParameterKind::Number(size) => Some(size),
            ParameterKind::Array(_) => Some(size_of::<u64>()),
            ParameterKind::Struct => None,
        }
    }

    fn takes(self, argument: &Argument<'_>) -> bool {
        match (self, argument) {
            (ParameterKind::Number(size), Argument::U32(_) | Argument::U64(_)) => {
                argument.size() == size
            }
            (ParameterKind::Array(_), Argument::U64(0)) => true,
            (ParameterKind::Array(size), Argument::Array { item, .. }) => {
                size.is_none_or(|size| item.is_multiple_of(size))
            }
            (ParameterKind::Struct, Argument::Struct(_)) => true,
            _ => false,
        }
    }
}

/// The parameters of a kernel; none if its source has no such kernel.
pub(crate) fn parameters(source: &'static Source, kernel: &str) -> Option<&'static [Parameter]> {
    known(source).get(kernel).map(Vec::as_slice)
}

/// The names of the kernels of a source, in order.
pub(crate) fn kernels(source: &'static Source) -> Vec<&'static str> {
    let mut names: Vec<&str> = known(source).keys().copied().collect();
    names.sort_unstable();
    names
}

fn known(source: &'static Source) -> &'static DeclaredKernels {
    /// The kernels of each source, by the address of its text.
    static KNOWN: LazyLock<RwLock<HashMap<usize, &'static DeclaredKernels>>> =
        LazyLock::new(RwLock::default);
    let key = source.text.as_ptr() as usize;
    let known = KNOWN
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&key)
        .copied();
    known.unwrap_or_else(|| {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        // Sources are static, so their signatures may stay as well.
        *known
            .entry(key)
            .or_insert_with(|| &*Box::leak(Box::new(declared(source.text))))
    })
}

/// Kernels by name.
type DeclaredKernels = HashMap<&'static str, Vec<Parameter>>;

/// Says what is wrong with the arguments of a launch, if something is.
pub(crate) fn check(kernel: Kernel, arguments: &[Argument<'_>]) -> Result<(), String> {
    let (name, file) = (kernel.name, kernel.source.name);
    let Some(parameters) = parameters(kernel.source, name) else {
        return Err(format!("no kernel {name} in {file}"));
    };
    if parameters.len() != arguments.len() {
        return Err(format!(
            "{name} in {file} has {} parameters, and {} arguments are given",
            parameters.len(),
            arguments.len()
        ));
    }
    for (index, (parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
        if !parameter.kind.takes(argument) {
            let given = match argument {
                Argument::U32(_) | Argument::U64(_) => {
                    format!("a number of {} bytes", argument.size())
                }
                Argument::Array { item, .. } => format!("an array of items of {item} bytes"),
                Argument::Struct(bytes) => format!("a struct of {} bytes", bytes.len()),
            };
            return Err(format!(
                "parameter {index} ({}) of {name} in {file} cannot be {given}",
                parameter.declared
            ));
        }
    }
    Ok(())
}

/// The kernels that a source writes out: `__global__ void`, perhaps bounds, a name, and parameters without parentheses.
fn declared(text: &'static str) -> DeclaredKernels {
    let mut found = HashMap::new();
    for (start, keyword) in text.match_indices("__global__") {
        let line = text[..start].rsplit('\n').next().unwrap_or_default();
        if line.contains("//") || line.trim_start().starts_with('#') {
            continue;
        }
        let mut rest = &text[start + keyword.len()..];
        while let Some(open) = rest.find('(') {
            let is_not_part = |c: char| !(c.is_alphanumeric() || c == '_');
            let name = rest[..open].trim_end().rsplit(is_not_part).next();
            let name = name.unwrap_or_default();
            let Some(size) = closing(&rest[open..]) else {
                break;
            };
            if name != "__launch_bounds__" {
                let list = rest[open + 1..open + size].split(',').map(str::trim);
                let list = list.filter(|declared| !declared.is_empty());
                found.insert(name, list.map(parameter).collect());
                break;
            }
            rest = &rest[open + size + 1..];
        }
    }
    found
}

/// Where the parenthesis closes that a text opens with.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.bytes().position(|byte| {
        depth += i32::from(byte == b'(') - i32::from(byte == b')');
        depth == 0
    })
}

fn parameter(declared: &'static str) -> Parameter {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    // All but the name.
    let kind = declared.trim_end_matches(is_part).trim_end();
    let (item, is_array) = match kind.strip_suffix('*') {
        Some(item) => (item.trim_end(), true),
        None => (kind, false),
    };
    let size = match item.strip_prefix("const ").unwrap_or(item) {
        "u8" => Some(1),
        "u16" => Some(2),
        "u32" | "i32" => Some(4),
        "u64" => Some(8),
        _ => None,
    };
    let kind = match (is_array, size) {
        (true, size) => ParameterKind::Array(size),
        (false, Some(size)) => ParameterKind::Number(size),
        (false, None) => ParameterKind::Struct,
    };
    Parameter { declared, kind }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sources::SOURCES;

    #[test]
    fn parameters_are_read_from_the_source() {
        let text = "// a __global__ void no(\n#define X __global__ void not_this(\n\
            extern \"C\" __global__ void a_kernel(u32 x) {}\n\
            extern \"C\" __global__ void __launch_bounds__(min(A, B), 2)\n\
            b_kernel(const u32* y, u64  z,\n    Entry* entries, Sizes sizes, u8 *bytes) { f(1); }\n\
            extern \"C\" __global__ __launch_bounds__(C) void c_kernel() {}\n";
        let found = declared(text);
        let kinds = |name: &str| -> Vec<ParameterKind> {
            found[name].iter().map(|parameter| parameter.kind).collect()
        };
        assert_eq!(found.len(), 3);
        assert_eq!(kinds("a_kernel"), [ParameterKind::Number(4)]);
        let expected = [
            ParameterKind::Array(Some(4)),
            ParameterKind::Number(8),
            ParameterKind::Array(None),
            ParameterKind::Struct,
            ParameterKind::Array(Some(1)),
        ];
        assert_eq!(kinds("b_kernel"), expected);
        assert_eq!(kinds("c_kernel"), []);
    }

    /// Numbers beyond these are easily confused: they go in one struct.
    const NUMBERS_MAX: usize = 8;

    #[test]
    fn every_kernel_is_declared_once_with_few_numbers() {
        for source in SOURCES {
            let written = source
                .text
                .lines()
                .filter(|line| line.contains("__global__"));
            let signatures = declared(source.text);
            assert_eq!(signatures.len(), written.count(), "{}", source.name);
            for (name, parameters) in signatures {
                let is_number =
                    |parameter: &&Parameter| matches!(parameter.kind, ParameterKind::Number(_));
                let numbers = parameters.iter().filter(is_number).count();
                assert!(numbers <= NUMBERS_MAX, "{name} has {numbers} numbers");
            }
        }
    }
}
