//! Compiles `proto/` with a pure-Rust compiler, so no `protoc` is needed.
//!
//! Two passes over one descriptor set: messages and client stubs, then server
//! stubs that send [`Frame`](proto/frame.rs) where the protocol says
//! `SubscribeResponse`, and [`Pulled`](proto/pulled.rs) for `PullResponse`, so that records
//! encoded once go out as they are.

use std::{env, fs, path::PathBuf};

use prost::Message as _;

const FILES: [&str; 4] = [
    "ackgate/v1/admin.proto",
    "ackgate/v1/gateway.proto",
    "ackgate/v1/publish.proto",
    "ackgate/v1/record.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let set = protox::compile(FILES, ["proto"])?;
    fs::write(out.join("ackgate_v1.bin"), set.encode_to_vec())?;

    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".")
        .compile_fds(set.clone())?;

    let server = out.join("server");
    fs::create_dir_all(&server)?;
    tonic_prost_build::configure()
        .build_client(false)
        .codec_path("crate::BoundedCodec")
        .out_dir(server)
        .extern_path(".ackgate.v1", "crate::v1")
        .extern_path(".ackgate.v1.SubscribeResponse", "crate::Frame")
        .extern_path(".ackgate.v1.PullResponse", "crate::Pulled")
        .compile_fds(set)?;
    Ok(())
}
