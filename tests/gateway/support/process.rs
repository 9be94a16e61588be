//! Child processes: started, read, signalled by id, and gone when the test is.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::SystemTime,
};

use super::eventually;

/// A running program whose output is kept. Killed when dropped; what it wrote to
/// its standard error is shown if the test has failed.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    out: Arc<Mutex<Vec<String>>>,
    err: Arc<Mutex<Vec<String>>>,
    /// Nobody reads its pipes any more.
    deaf: Arc<AtomicBool>,
    /// The threads that read its pipes, until they have been joined.
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts a program without input.
    pub(crate) fn start(name: &str, command: &mut Command) -> Self {
        Self::start_with_input(name, command, Stdio::null())
    }

    /// Starts a program.
    pub(crate) fn start_with_input(name: &str, command: &mut Command, input: Stdio) -> Self {
        let mut child = command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let (out, err, deaf) = (Arc::default(), Arc::default(), Arc::default());
        let readers = vec![
            keep(
                child.stdout.take().expect("stdout is piped"),
                Arc::clone(&out),
                Arc::clone(&deaf),
            ),
            keep(
                child.stderr.take().expect("stderr is piped"),
                Arc::clone(&err),
                Arc::clone(&deaf),
            ),
        ];
        Self {
            name: name.to_owned(),
            child,
            out,
            err,
            deaf,
            readers,
        }
    }

    /// The lines it has written to its standard output, from the given one on.
    pub(crate) fn out_from(&self, line: usize) -> Vec<String> {
        self.out
            .lock()
            .unwrap()
            .get(line..)
            .unwrap_or_default()
            .to_vec()
    }

    /// What it has written to its standard error.
    pub(crate) fn err(&self) -> String {
        self.err.lock().unwrap().join("\n")
    }

    /// Closes its pipes: each one breaks with the next line that is written to it.
    pub(crate) fn stop_reading(&self) {
        self.deaf.store(true, Ordering::Relaxed);
    }

    /// Sends it a signal by name, as `TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([format!("-{signal}"), self.child.id().to_string()])
            .status()
            .expect("kill can be run");
        assert!(status.success(), "{} could not be sent {signal}", self.name);
    }

    /// Ends it at once, without a chance to tidy up.
    pub(crate) fn kill(&mut self) {
        // Fails only if it has already ended.
        self.child.kill().ok();
        self.child.wait().expect("a child can be waited for");
        self.read_to_the_end();
    }

    /// Whether it has ended, and how.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end; all that it wrote is there then.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let what = format!("{} ends", self.name);
        let status = eventually(&what, async || {
            self.ended().ok_or_else(|| "it is running".to_owned())
        })
        .await;
        self.read_to_the_end();
        status
    }

    /// How many sockets it has open.
    pub(crate) fn sockets(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.child.id());
        let files = fs::read_dir(folder).expect("a running process has open files");
        let links = files.flatten().map(|file| fs::read_link(file.path()));
        links
            .filter(|link| {
                let link = link.as_ref().map(|link| link.to_string_lossy());
                link.is_ok_and(|link| link.starts_with("socket:"))
            })
            .count()
    }

    /// Its resident memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let id = self.child.id().to_string();
        let output = Command::new("ps").args(["-o", "rss=", "-p", &id]).output();
        let printed = output.expect("ps can be run").stdout;
        let kilobytes = String::from_utf8_lossy(&printed).trim().parse::<u64>();
        kilobytes.expect("ps prints a number of KiB") * 1024
    }

    fn read_to_the_end(&mut self) {
        for reader in self.readers.drain(..) {
            reader.join().expect("reading a pipe does not panic");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("---- {} wrote:\n{}\n----", self.name, self.err());
        }
    }
}

/// Collects lines on a thread that ends with its pipe, or at the first line after
/// nobody wants them any more.
fn keep(
    pipe: impl Read + Send + 'static,
    lines: Arc<Mutex<Vec<String>>>,
    deaf: Arc<AtomicBool>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
            if deaf.load(Ordering::Relaxed) {
                return;
            }
        }
    })
}

/// The `ackgate` program: what `ACKGATE_BIN` names, or the one beside this test.
/// `cargo test` builds it; a run of this test alone may find it missing, older than
/// its source or without fail points, and then builds it.
pub(crate) fn ackgate() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(path) = env::var_os("ACKGATE_BIN") {
            return path.into();
        }
        let test = env::current_exe().expect("a program knows its path");
        let deps = test.parent().expect("a test lies in a folder");
        let profile = deps.parent().expect("deps lies in the profile's folder");
        let program = profile.join("ackgate");
        if modified(&program) < newest_source() || !has_fail_points(&program) {
            build(profile);
        }
        program
    })
}

/// Whether it was built for tests: plain `cargo build` leaves one here that was not.
fn has_fail_points(program: &Path) -> bool {
    let found = Command::new("grep")
        .args(["--quiet", "--text", "ACKGATE_FAIL_POINT"])
        .arg(program)
        .status();
    found.expect("grep can be run").success()
}

fn build(profile: &Path) {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args([
        "build",
        "--quiet",
        "--package",
        "ackgate",
        "--bin",
        "ackgate",
        "--features",
        "fail-points",
    ]);
    command.arg("--target-dir").arg(
        profile
            .parent()
            .expect("a profile lies in the target folder"),
    );
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo can be run");
    assert!(status.success(), "the ackgate program cannot be built");
}

/// When the newest file that the program is made of was written.
fn newest_source() -> Option<SystemTime> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = ["proto", "client/src", "server/src", "server/lane/src"]
        .map(|f| root.join(f))
        .into();
    let mut newest = None;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                newest = newest.max(modified(&path));
            }
        }
    }
    newest
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
}
