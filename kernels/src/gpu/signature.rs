//! The parameters of kernels, as their `.cu` files declare them.
//!
//! The invariant: an argument that passes here has the name, the kind and the size of its parameter, and an array has items that can be
//! taken as some of those that the kernel takes it for, as a `u64` is two `u32`. That an array is long enough is for the wrapper of the launch to see to.
//!
//! A kernel is declared once, in its source, so nothing here can disagree with what is compiled: parameters are read from
//! that text, and drivers compare them with the function that was loaded.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use super::driver::{Argument, Kernel, NamedArgument, Source};

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// As it is declared: type and name.
    declared: &'static str,
    pub(crate) kind: ParameterKind,
}

/// The parameter types of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// A number of this size in bytes.
    Number(usize),
    /// The address of numbers of this size in bytes, or of structs, whose size only the compiler knows.
    Array(Option<usize>),
    /// Numbers in a struct.
    Struct,
}

impl Parameter {
    fn name(&self) -> &'static str {
        let declared = self.declared;
        &declared[declared.trim_end_matches(is_part_of_name).len()..]
    }
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

/// The arguments of a launch in the order of the kernel's parameters, or what is wrong with them.
pub(crate) fn in_order<'a>(
    kernel: Kernel,
    arguments: &[NamedArgument<'a>],
) -> Result<Vec<Argument<'a>>, String> {
    let (kernel_name, file) = (kernel.name, kernel.source.name);
    let Some(parameters) = parameters(kernel.source, kernel_name) else {
        return Err(format!("no kernel {kernel_name} in {file}"));
    };
    let is_known = |name: &str| parameters.iter().any(|parameter| parameter.name() == name);
    if let Some((name, _)) = arguments.iter().find(|(name, _)| !is_known(name)) {
        return Err(format!("{kernel_name} in {file} has no parameter `{name}`"));
    }
    let argument_of = |parameter: &Parameter| {
        let mut given = arguments
            .iter()
            .filter(|(name, _)| *name == parameter.name());
        let (Some((_, argument)), None) = (given.next(), given.next()) else {
            return Err(format!(
                "parameter `{}` of {kernel_name} in {file} is not given once",
                parameter.declared
            ));
        };
        if parameter.kind.takes(argument) {
            return Ok(*argument);
        }
        let given = match argument {
            Argument::U32(_) | Argument::U64(_) => {
                format!("a number of {} bytes", argument.size())
            }
            Argument::Array { item, .. } => format!("an array of items of {item} bytes"),
            Argument::Struct(bytes) => format!("a struct of {} bytes", bytes.len()),
        };
        Err(format!(
            "parameter `{}` of {kernel_name} in {file} cannot be {given}",
            parameter.declared
        ))
    };
    parameters.iter().map(argument_of).collect()
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
            let is_not_part = |c: char| !is_part_of_name(c);
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

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn parameter(declared: &'static str) -> Parameter {
    // All but the name.
    let kind = declared.trim_end_matches(is_part_of_name).trim_end();
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
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

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

    /// The names in each `arguments! { .. }` of a file, with the line where it begins.
    fn named_arguments(text: &str) -> Vec<(usize, Vec<&str>)> {
        let opening = "arguments! {";
        let found = text.match_indices(opening).map(|(start, _)| {
            let (mut names, mut depth, mut is_next) = (Vec::new(), 0, false);
            let code = text[start + opening.len() - 1..].lines();
            for line in code.map(|line| line.split("//").next().unwrap_or_default()) {
                for (at, c) in line.char_indices() {
                    match c {
                        '{' | '(' | '[' => depth += 1,
                        '}' | ')' | ']' => depth -= 1,
                        c if depth == 1 && is_next && is_part_of_name(c) => {
                            let name = &line[at..];
                            let end = name.find(|c| !is_part_of_name(c));
                            names.push(&name[..end.unwrap_or(name.len())]);
                        }
                        _ => {}
                    }
                    is_next = match c {
                        ' ' => is_next,
                        c => depth == 1 && (c == ',' || c == '{'),
                    };
                    if depth == 0 {
                        return (text[..start].lines().count(), names);
                    }
                }
            }
            (text[..start].lines().count(), names)
        });
        found.collect()
    }

    #[test]
    fn names_of_arguments_are_read_from_launches() {
        let text =
            "f(arguments! { a, b: &[c, d], // e, f\n  g: h(i) }); arguments! {\n    j: 1,\n}";
        let expected = vec![(1, vec!["a", "b", "g"]), (2, vec!["j"])];
        assert_eq!(named_arguments(text), expected);
    }

    /// A launch with a wrong name is refused when it runs. This test needs no launch.
    #[test]
    fn every_launch_names_parameters_of_a_kernel() {
        let kernels: Vec<BTreeSet<&str>> = (SOURCES.iter())
            .flat_map(|source| declared(source.text).into_values())
            .map(|parameters| parameters.iter().map(Parameter::name).collect())
            .collect();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut wrong = Vec::new();
        while let Some(folder) = folders.pop() {
            // The program may run where the sources are not.
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                let is_launching = |line: &str| line.starts_with("pub(crate) static SOURCE");
                if !text.lines().any(is_launching) {
                    continue;
                }
                for (line, names) in named_arguments(&text) {
                    let mut all = kernels.iter();
                    if !all.any(|kernel| names.iter().all(|name| kernel.contains(name))) {
                        wrong.push(format!("{}:{line}: {names:?}", path.display()));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
