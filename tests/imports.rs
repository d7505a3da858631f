//! Imports within a crate go one way, and a name of a type means one thing.
//!
//! Files are read as syntax; what tests alone use is left out. An import counts as one of the file that defines the name, not
//! of those that pass it on, and of a module by its parent only if the parent uses it. A macro's text is not looked into.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree};

/// The crates, by their roots.
const ROOTS: [&str; 15] = [
    "src/lib.rs",
    "arrow/src/lib.rs",
    "python/src/lib.rs",
    "formats/src/lib.rs",
    "search/src/lib.rs",
    "sql/src/lib.rs",
    "storage/src/lib.rs",
    "kernels/src/lib.rs",
    "bench/kernels/src/lib.rs",
    "bench/report/src/lib.rs",
    "cli/src/main.rs",
    "datafusion/src/lib.rs",
    "ffi/src/lib.rs",
    "scripts/attack/main.rs",
    "scripts/cliffs/main.rs",
];

/// A module, by the names from the crate's root on.
type Name = Vec<String>;

/// A module and what stands in it.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// What names that it imports stand for, from the root on.
    imports: BTreeMap<String, Name>,
    /// What it uses, from the root on. What it only passes on to others is not used.
    uses: BTreeSet<Name>,
    /// Types that it defines.
    types: Vec<String>,
}

/// The modules of a crate.
#[derive(Default)]
struct Modules(BTreeMap<Name, Module>);

#[test]
fn no_imports_lead_in_a_circle() {
    let mut circles = Vec::new();
    for root in ROOTS {
        let modules = Modules::read(root);
        let files = modules.edges();
        assert!(!files.is_empty(), "{root}");
        for circle in circles_of(&files) {
            let inside = |file: &&PathBuf| circle.contains(*file);
            for file in &circle {
                for (other, names) in files[file].iter().filter(|(other, _)| inside(other)) {
                    circles.push(format!(
                        "{} takes {names:?} from {}",
                        file.display(),
                        other.display()
                    ));
                }
            }
            circles.push("hint: put what both need into a module below them".to_owned());
        }
    }
    assert!(circles.is_empty(), "\n{}", circles.join("\n"));
}

/// The crate whose folders are not looked at: what its workers ask and are asked lies beside them.
const WITH_CIRCLES: &str = "datafusion/src/lib.rs";

#[test]
fn no_folders_lead_in_a_circle() {
    let mut circles = Vec::new();
    for root in ROOTS.iter().filter(|root| **root != WITH_CIRCLES) {
        // For each folder what lies in it, and what that uses of the rest of it. A file and the folder of its modules are one.
        let mut levels: BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>> =
            BTreeMap::new();
        for (file, uses) in Modules::read(root).edges() {
            for other in uses.keys() {
                let Some((folder, own, needed)) = parted(&file, other) else {
                    continue;
                };
                let level = levels.entry(folder).or_default();
                level.entry(needed.clone()).or_default();
                let about = format!("{} for {}", other.display(), file.display());
                (level.entry(own).or_default().entry(needed).or_default()).insert(about);
            }
        }
        for level in levels.values() {
            for circle in circles_of(level) {
                for own in &circle {
                    for (other, files) in &level[own] {
                        if circle.contains(other) {
                            let (own, other) = (own.display(), other.display());
                            circles.push(format!("{own} needs {other}: {files:?}"));
                        }
                    }
                }
            }
        }
    }
    assert!(circles.is_empty(), "\n{}", circles.join("\n"));
}

/// The folder in which the ways to two files part, and what leads to each of them there; none if one of them is that folder.
fn parted(file: &Path, other: &Path) -> Option<(PathBuf, PathBuf, PathBuf)> {
    let parts = |file: &Path| -> Vec<PathBuf> {
        let module = match file.file_name() {
            Some(name) if name == "mod.rs" => file.parent().unwrap().to_path_buf(),
            _ => file.with_extension(""),
        };
        module
            .components()
            .map(|part| PathBuf::from(part.as_os_str()))
            .collect()
    };
    let (own, other) = (parts(file), parts(other));
    let same = own
        .iter()
        .zip(&other)
        .take_while(|(own, other)| own == other)
        .count();
    let folder: PathBuf = own[..same].iter().collect();
    Some((
        folder.clone(),
        folder.join(own.get(same)?),
        folder.join(other.get(same)?),
    ))
}

#[test]
fn every_type_of_a_crate_has_a_name_of_its_own() {
    let mut problems = Vec::new();
    for root in ROOTS {
        let mut places: BTreeMap<&str, BTreeSet<&Path>> = BTreeMap::new();
        let modules = Modules::read(root);
        for module in modules.0.values() {
            for name in &module.types {
                places.entry(name).or_default().insert(&module.file);
            }
        }
        for (name, files) in places.iter().filter(|(_, files)| files.len() > 1) {
            let files: Vec<String> = files
                .iter()
                .map(|file| file.display().to_string())
                .collect();
            problems.push(format!("{name}: {}", files.join(", ")));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// A crate may define a type that another defines too, so the interface of the database, which takes from several, is looked at
/// by itself.
#[test]
fn every_name_of_the_interface_stands_for_one_thing() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(top.join("src/lib.rs")).unwrap();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    names_for_others(
        &top.join("src"),
        "zipfdb",
        &syn::parse_file(&text).unwrap().items,
        &mut places,
    );
    assert!(places.contains_key("Database") && places.contains_key("BatchColumn"));
    let problems = places.iter().filter(|(_, modules)| modules.len() > 1);
    let problems: Vec<String> = problems
        .map(|(name, modules)| format!("{name}: {}", modules.join(", ")))
        .collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// The names that a module and the modules in it offer to other crates, each with its modules; none of what documentation hides.
/// `beside` is the folder of its modules.
fn names_for_others(
    beside: &Path,
    module: &str,
    items: &[Item],
    places: &mut BTreeMap<String, Vec<String>>,
) {
    let is_public = |visibility: &syn::Visibility| matches!(visibility, syn::Visibility::Public(_));
    for item in items {
        let (visibility, name) = match item {
            Item::Use(item) if is_public(&item.vis) => {
                let mut reader = Reader::default();
                reader.import(&item.tree, Vec::new(), true);
                for name in reader.module.imports.into_keys() {
                    places.entry(name).or_default().push(module.to_owned());
                }
                continue;
            }
            Item::Mod(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                let name = item.ident.to_string();
                let (beside, module) = (beside.join(&name), format!("{module}::{name}"));
                if let Some((_, items)) = &item.content {
                    names_for_others(&beside, &module, items, places);
                } else {
                    let files = [beside.with_extension("rs"), beside.join("mod.rs")];
                    let file = files.iter().find(|file| file.exists()).unwrap();
                    let syntax = syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap();
                    names_for_others(&beside, &module, &syntax.items, places);
                }
                continue;
            }
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            Item::Fn(item) => (&item.vis, &item.sig.ident),
            _ => continue,
        };
        if is_public(visibility) {
            places
                .entry(name.to_string())
                .or_default()
                .push(module.to_owned());
        }
    }
}

/// Whether documentation leaves it out.
fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && (attribute.meta.require_list())
                .is_ok_and(|list| list.tokens.to_string().contains("hidden"))
    })
}

impl Modules {
    fn read(root: &str) -> Modules {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut modules = Modules::default();
        modules.read_file(top, Path::new(root), Vec::new(), true);
        modules
    }

    /// Reads a file and the modules in it. `is_directory` if its modules lie beside it, as those of a root.
    fn read_file(&mut self, top: &Path, file: &Path, name: Name, is_directory: bool) {
        let text = fs::read_to_string(top.join(file)).unwrap();
        let syntax = syn::parse_file(&text).unwrap();
        let beside = if is_directory {
            file.parent().unwrap().to_path_buf()
        } else {
            file.with_extension("")
        };
        self.read_items(top, file, &beside, &name, &syntax.items);
    }

    fn read_items(&mut self, top: &Path, file: &Path, beside: &Path, name: &Name, items: &[Item]) {
        let mut reader = Reader {
            name: name.clone(),
            module: Module {
                file: file.to_path_buf(),
                ..Module::default()
            },
        };
        let children: BTreeSet<String> = (items.iter())
            .filter_map(|item| match item {
                Item::Mod(module) => Some(module.ident.to_string()),
                _ => None,
            })
            .collect();
        for item in items {
            let Item::Mod(module) = item else {
                reader.visit_item(item);
                continue;
            };
            if is_of_tests(&module.attrs) {
                continue;
            }
            let mut child = name.clone();
            child.push(module.ident.to_string());
            let beside = beside.join(module.ident.to_string());
            match &module.content {
                Some((_, items)) => self.read_items(top, file, &beside, &child, items),
                None => {
                    let own = beside.with_extension("rs");
                    if top.join(&own).exists() {
                        self.read_file(top, &own, child, false)
                    } else {
                        self.read_file(top, &beside.join("mod.rs"), child, true)
                    }
                }
            }
        }
        // A path that begins with a module's name begins here.
        let uses = std::mem::take(&mut reader.module.uses).into_iter();
        reader.module.uses = uses
            .filter_map(|path| reader.whole(path, &children))
            .collect();
        let imports = std::mem::take(&mut reader.module.imports).into_iter();
        reader.module.imports = imports
            .filter_map(|(known_as, path)| Some((known_as, reader.whole(path, &children)?)))
            .collect();
        self.0.insert(name.clone(), reader.module);
    }

    /// For each file the files whose names it uses, and the names.
    fn edges(&self) -> BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>> {
        let mut edges: BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>> = BTreeMap::new();
        for module in self.0.values() {
            let of_file = edges.entry(module.file.clone()).or_default();
            for path in &module.uses {
                let Some(definer) = self.definer(path, 0) else {
                    continue;
                };
                // What every module may use of the root is not defined there: macros and lists of modules.
                if definer.file != module.file && definer.file != self.0[&Vec::new()].file {
                    let used = path.last().unwrap().clone();
                    (of_file.entry(definer.file.clone()).or_default()).insert(used);
                }
            }
        }
        edges
    }

    /// The module that defines what a path leads to.
    fn definer(&self, path: &[String], depth: usize) -> Option<&Module> {
        let (length, module) = (0..=path.len())
            .rev()
            .find_map(|length| Some((length, self.0.get(&path[..length])?)))?;
        let Some(name) = path.get(length) else {
            return Some(module);
        };
        match module.imports.get(name) {
            Some(target) if depth < 8 && target[..] != *path => {
                let target = [target, &path[length + 1..]].concat();
                self.definer(&target, depth + 1)
            }
            _ => Some(module),
        }
    }
}

/// Reads what stands in a module, except for the modules in it.
#[derive(Default)]
struct Reader {
    name: Name,
    module: Module,
}

impl Reader {
    /// A path from the root on; none if it leads out of the crate.
    fn whole(&self, path: Name, children: &BTreeSet<String>) -> Option<Name> {
        let (first, rest) = path.split_first()?;
        let mut whole = match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" | "super" => self.name.clone(),
            child if children.contains(child) => {
                return Some([&self.name[..], &path].concat());
            }
            _ => return None,
        };
        let ups = path.iter().take_while(|part| *part == "super").count();
        whole.truncate(whole.len().checked_sub(ups)?);
        let rest = &path[ups.max(1)..];
        Some([whole, rest.to_vec()].concat())
    }

    fn import(&mut self, tree: &UseTree, mut path: Name, passes_on: bool) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.import(&part.tree, path, passes_on);
            }
            UseTree::Name(name) => {
                let known_as = name.ident.to_string();
                self.import_as(path, known_as.clone(), known_as, passes_on);
            }
            UseTree::Rename(name) => {
                let known_as = name.rename.to_string();
                self.import_as(path, name.ident.to_string(), known_as, passes_on);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path.clone(), passes_on);
                }
            }
            UseTree::Glob(_) => drop(self.module.uses.insert(path)),
        }
    }

    fn import_as(&mut self, mut path: Name, name: String, known_as: String, passes_on: bool) {
        match name.as_str() {
            "self" => {
                let known_as = path.last().cloned().unwrap_or_default();
                self.module.imports.insert(known_as, path.clone());
            }
            _ => {
                path.push(name);
                self.module.imports.insert(known_as, path.clone());
            }
        }
        if !passes_on {
            self.module.uses.insert(path);
        }
    }

    fn define(&mut self, attributes: &[Attribute], name: &syn::Ident) {
        if !is_of_tests(attributes) {
            self.module.types.push(name.to_string());
        }
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a Item) {
        match item {
            Item::Struct(item) => self.define(&item.attrs, &item.ident),
            Item::Enum(item) => self.define(&item.attrs, &item.ident),
            Item::Union(item) => self.define(&item.attrs, &item.ident),
            Item::Trait(item) => self.define(&item.attrs, &item.ident),
            Item::Type(item) => self.define(&item.attrs, &item.ident),
            _ => {}
        }
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_of_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if !is_of_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let passes_on = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&item.tree, Vec::new(), passes_on);
    }

    /// Where something may be seen from is no use of it.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            let parts = path.segments.iter();
            (self.module.uses).insert(parts.map(|part| part.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

/// Whether it is compiled for tests only.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Ok(list) = attribute.meta.require_list() else {
            return false;
        };
        attribute.path().is_ident("cfg") && list.tokens.to_string().contains("test")
    })
}

/// The sets of two files or more that lead to each other.
fn circles_of(
    edges: &BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>,
) -> Vec<BTreeSet<PathBuf>> {
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = (edges.keys())
        .map(|file| {
            let mut found = BTreeSet::new();
            let mut waiting = vec![file];
            while let Some(file) = waiting.pop() {
                let others = edges.get(file).into_iter().flat_map(BTreeMap::keys);
                waiting.extend(others.filter(|other| found.insert(*other)));
            }
            (file, found)
        })
        .collect();
    let mut circles: BTreeSet<BTreeSet<PathBuf>> = BTreeSet::new();
    for (file, found) in &reached {
        let circle = found.iter().filter(|other| {
            let back = reached.get(*other);
            back.is_some_and(|back| back.contains(file))
        });
        let circle: BTreeSet<PathBuf> = circle.map(|file| file.to_path_buf()).collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}
