//! The protocol's files, compiled.

use std::{
    fs,
    path::{Path, PathBuf},
};

use prost_types::FileDescriptorSet;

/// Where the protocol is as it is now, from the root; imports begin here.
pub(crate) const NOW: &str = "proto";

/// Where it is as it was released.
pub(crate) const RELEASED: &str = "proto/released";

/// Where the package's files are, below either.
pub(crate) const PACKAGE: &str = "ackgate/v1";

/// A path from the root.
pub(crate) fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The package's files in a folder where imports begin, by name.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder.join(PACKAGE)).expect("the package has a folder");
    let mut files: Vec<PathBuf> = listed
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|it| it == "proto"))
        .collect();
    files.sort();
    files
}

/// Compiles the package in a folder where imports begin. Comments come with it.
pub(crate) fn compiled(folder: &Path) -> FileDescriptorSet {
    let set = protox::compile(files(folder), [folder]);
    set.unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}
