//! A process of a benchmark: started, listened to, and ended by its id whatever
//! happens.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{ChildStdout, Command},
    time::timeout,
};

use super::{
    cpu,
    job::{Event, Measured},
};

/// Time for a process to end by itself after it was asked to.
const GOODBYE: Duration = Duration::from_secs(15);

/// Bytes of its last words that are shown when a process fails.
const LAST_WORDS: u64 = 4096;

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Child {
    name: String,
    child: tokio::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// What it says on standard error: shown if it fails.
    words: File,
}

impl Child {
    /// Starts `program`; `name` stands in messages.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(name: &str, program: &Path, arguments: &[&str]) -> Result<Self> {
        let words = tempfile::tempfile()?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(words.try_clone()?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting the {name}"))?;
        let output = child.stdout.take().context("a process without output")?;
        let lines = BufReader::new(output).lines();
        Ok(Self {
            name: name.to_owned(),
            child,
            lines,
            words,
        })
    }

    /// Listens until it is done; `progress` is told its records.
    ///
    /// # Errors
    /// It ended without being done, said what is no event, or `deadline` passed.
    pub(super) async fn done(
        &mut self,
        deadline: Duration,
        progress: impl FnMut(u64),
    ) -> Result<Measured> {
        match timeout(deadline, self.listen(progress)).await {
            Ok(Ok(Some(measured))) => Ok(measured),
            Ok(Ok(None)) => Err(self.failure().await),
            Ok(Err(error)) => Err(error.context(format!("listening to the {}", self.name))),
            Err(_) => bail!("the {} was not done within {deadline:?}", self.name),
        }
    }

    async fn listen(&mut self, mut progress: impl FnMut(u64)) -> Result<Option<Measured>> {
        while let Some(line) = self.lines.next_line().await? {
            match serde_json::from_str(&line)? {
                Event::Progress { records } => progress(records),
                Event::Done(measured) => return Ok(Some(measured)),
            }
        }
        Ok(None)
    }

    /// Whether it still runs; an error with its last words if not.
    ///
    /// # Errors
    /// It has ended.
    pub(super) async fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(_) => Err(self.failure().await),
        }
    }

    /// CPU seconds it has used, while it runs.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        cpu::seconds(self.child.id()?)
    }

    /// Asks it to end, and kills it if it does not.
    ///
    /// # Errors
    /// It cannot even be killed.
    pub(super) async fn stop(mut self) -> Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
            // It may have ended just now.
            rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap_or_default();
        }
        if timeout(GOODBYE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    async fn failure(&mut self) -> anyhow::Error {
        let ended = match timeout(GOODBYE, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no sign of life".to_owned(),
        };
        let words = self.last_words().unwrap_or_default();
        anyhow!("the {} failed ({ended}):\n{}", self.name, words.trim())
    }

    fn last_words(&mut self) -> std::io::Result<String> {
        let length = self.words.seek(SeekFrom::End(0))?;
        self.words
            .seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)))?;
        let mut words = Vec::new();
        self.words.read_to_end(&mut words)?;
        Ok(String::from_utf8_lossy(&words).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Child {
        Child::start("shell", Path::new("/bin/sh"), &["-c", script]).unwrap()
    }

    #[tokio::test]
    async fn progress_and_result_are_heard() {
        let done = r#"{"event":"done","records":2,"bytes":3,"seconds":0.5,
            "committed_seconds":null,"cpu_seconds":1.0}"#
            .replace('\n', "");
        let script = format!(r#"echo '{{"event":"progress","records":1}}'; echo '{done}'"#);
        let mut heard = Vec::new();
        let measured = shell(&script)
            .done(DEADLINE, |records| heard.push(records))
            .await
            .unwrap();
        assert_eq!((measured.records, heard), (2, vec![1]));
    }

    #[tokio::test]
    async fn failure_comes_with_the_last_words() {
        let mut child = shell("echo what went wrong >&2; exit 3");
        let error = child.done(DEADLINE, |_| {}).await.unwrap_err().to_string();
        assert!(
            error.contains("shell failed") && error.contains("what went wrong"),
            "{error}"
        );
        assert!(child.check().await.is_err());
    }

    #[tokio::test]
    async fn deadline_ends_the_wait() {
        let mut child = shell("sleep 60");
        let error = child
            .done(Duration::from_millis(10), |_| {})
            .await
            .unwrap_err();
        assert!(error.to_string().contains("not done"), "{error}");
    }

    #[tokio::test]
    async fn stopped_and_dropped_processes_are_gone() {
        let child = shell("sleep 60");
        let id = child.child.id().unwrap();
        child.stop().await.unwrap();
        assert!(!Path::new(&format!("/proc/{id}")).exists());
        let child = shell("sleep 60");
        let stat = format!("/proc/{}/stat", child.child.id().unwrap());
        drop(child);
        let deadline = std::time::Instant::now() + DEADLINE;
        // Gone, or dead and waiting to be reaped.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(std::time::Instant::now() < deadline, "still runs");
            tokio::task::yield_now().await;
        }
    }
}
