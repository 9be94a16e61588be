//! Reads the tree: Rust sources with their comments and inline tests told apart.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders that hold sources of ours.
const ROOTS: [&str; 4] = ["proto", "client", "server", "tests"];

/// A Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
}

impl Source {
    /// Whether it holds nothing but tests.
    pub(crate) fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
    }

    /// Everything before the inline tests, which stand last in a file.
    pub(crate) fn production(&self) -> &str {
        let tests = self.text.find("\n#[cfg(test)]\nmod ");
        tests
            .and_then(|at| self.text.get(..at))
            .unwrap_or(&self.text)
    }

    /// The production lines without comments.
    pub(crate) fn code(&self) -> String {
        let code = self
            .production()
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        code.collect::<Vec<_>>().join("\n")
    }

    /// Whether the code uses a crate by this name: `name::`, `use name;`, `extern crate`.
    pub(crate) fn names_crate(&self, name: &str) -> bool {
        let path = format!("{name}::");
        self.code().lines().any(|line| {
            let imported = line.trim().strip_prefix("use ").is_some_and(|rest| {
                rest.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with([';', ' ']))
            });
            imported
                || line.match_indices(&path).any(|(at, _)| {
                    let before = line.get(..at).and_then(|head| head.chars().next_back());
                    // A module of the same name deeper in a path is another thing.
                    !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
                })
        })
    }
}

/// The root of the tree.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file, from the root.
pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Whether there is a file or folder, from the root.
pub(crate) fn exists(path: &str) -> bool {
    root().join(path).exists()
}

/// All Rust files of the tree.
pub(crate) fn sources() -> Vec<Source> {
    let mut folders: Vec<PathBuf> = ROOTS.map(|name| root().join(name)).into();
    let mut found = vec![read(&root().join("build.rs"))];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the tree can be read") {
            let path = entry.expect("a folder of the tree can be read").path();
            if path.is_dir() {
                if !is_made(&path) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(read(&path));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Whether a folder is what tools of other languages make: nothing of ours lies there.
fn is_made(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || ["node_modules", "target"].contains(&name.as_ref())
}

fn read(path: &Path) -> Source {
    let relative = path.strip_prefix(root()).expect("it lies in the tree");
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    let path = parts.join("/");
    Source {
        text: text(&path),
        path,
    }
}

/// Whether a line has a word by itself.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric())
        .any(|one| one == word)
}

/// Whether a word is the id of an invariant, as `L3`.
pub(crate) fn is_invariant(word: &str) -> bool {
    let digits = word.strip_prefix('L').unwrap_or_default();
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

/// Invariants named in comments.
pub(crate) fn cited(source: &Source) -> impl Iterator<Item = String> {
    let comments = source.text.lines().filter_map(|line| line.split_once("//"));
    comments.flat_map(|(_, comment)| {
        let words = comment.split(|c: char| !c.is_alphanumeric());
        words.filter(|word| is_invariant(word)).map(str::to_owned)
    })
}

/// Files and folders that a document names between backticks.
pub(crate) fn paths_named(document: &str) -> Vec<String> {
    let inside = document.split('`').skip(1).step_by(2);
    let known = |word: &&str| {
        let (first, _) = word.split_once('/').unwrap_or_default();
        ROOTS.contains(&first) && !word.contains(['*', ' ', '{', '<', ':'])
    };
    inside.filter(known).map(str::to_owned).collect()
}
