//! An `ackgate sub --json` process: one line of JSON for each record, written
//! before the record is answered.

use std::{net::SocketAddr, process::Command};

use serde_json::Value;

use super::{Process, ackgate};

/// A running subscriber. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Subscriber {
    process: Process,
    /// Lines already taken.
    taken: usize,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    /// Where the record comes from.
    pub(crate) partition: i32,
    /// Its offset.
    pub(crate) offset: i64,
}

impl Subscriber {
    /// Starts a subscriber of `orders` with more arguments.
    pub(crate) fn start(address: SocketAddr, arguments: &[&str]) -> Self {
        Self::start_at(address, &[&["orders"], arguments].concat())
    }

    /// Starts a subscriber of whatever the arguments say.
    pub(crate) fn start_at(address: SocketAddr, arguments: &[&str]) -> Self {
        let mut command = Command::new(ackgate());
        command.arg("sub").arg("--json");
        command.arg("--address").arg(format!("http://{address}"));
        command.args(arguments);
        Self {
            process: Process::start("ackgate sub", &mut command),
            taken: 0,
        }
    }

    /// What it has printed since the last call.
    pub(crate) fn take(&mut self) -> Vec<Printed> {
        self.lines().iter().map(printed).collect()
    }

    /// What it has printed since the last call, as it is.
    pub(crate) fn lines(&mut self) -> Vec<Value> {
        let lines = self.process.out_from(self.taken);
        self.taken += lines.len();
        lines.iter().map(|line| parse(line)).collect()
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self) -> std::process::ExitStatus {
        self.process.end().await
    }
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn printed(line: &Value) -> Printed {
    let number = |key: &str| {
        line[key]
            .as_i64()
            .unwrap_or_else(|| panic!("no {key} in {line}"))
    };
    Printed {
        partition: number("partition") as i32,
        offset: number("offset"),
    }
}
