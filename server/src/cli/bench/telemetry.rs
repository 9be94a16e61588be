//! How much a measured gateway tells of itself, and who reads it meanwhile.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, anyhow, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{MissedTickBehavior, interval, timeout},
};

/// Between two scrapes.
const EVERY: Duration = Duration::from_secs(1);

/// Time for one scrape: the gateway has given up before.
const SCRAPE: Duration = Duration::from_secs(15);

/// The most of an answer that is read, in bytes.
const MOST: u64 = 64 << 20;

/// What a gateway tells of itself while it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telemetry {
    /// No traces, no admin address.
    Off,
    /// What it does by itself, and its metrics are scraped.
    Default,
    /// The same, with one record in a hundred traced.
    Hundredth,
}

impl Telemetry {
    /// All of them, in the order of a turn.
    pub(super) const ALL: [Self; 3] = [Self::Off, Self::Default, Self::Hundredth];

    /// The gateway's name in groups and files.
    pub(super) const fn party(self) -> &'static str {
        match self {
            Self::Off => "gateway-off",
            Self::Default => "gateway-default",
            Self::Hundredth => "gateway-hundredth",
        }
    }

    /// Its part of the gateway's configuration, in lines; an admin address is `admin`.
    pub(super) fn lines(self, admin: SocketAddr) -> String {
        let admin = format!("admin = {{ address = \"{admin}\" }}\n");
        match self {
            Self::Off => "telemetry = { traces = { sample = 0.0, keep = 0 } }\n".to_owned(),
            Self::Default => admin,
            Self::Hundredth => admin + "telemetry = { traces = { sample = 0.01 } }\n",
        }
    }

    /// Whether it has metrics that can be scraped.
    pub(super) const fn is_scraped(self) -> bool {
        !matches!(self, Self::Off)
    }
}

/// Reads the metrics at `admin` once a second and counts how often it did, until that fails.
///
/// Cancel safe: a scrape that is not over is not counted.
pub(super) async fn scrape(admin: SocketAddr, scrapes: &mut u32) -> anyhow::Error {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match timeout(SCRAPE, ask(admin)).await {
            Ok(Ok(())) => *scrapes += 1,
            Ok(Err(error)) => return error.context("scraping the gateway's metrics"),
            Err(_) => return anyhow!("the gateway's metrics did not come within {SCRAPE:?}"),
        }
    }
}

async fn ask(admin: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(admin).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).await?;
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        let head = answer.split(|byte| *byte == b'\r').next();
        let head = String::from_utf8_lossy(head.unwrap_or_default());
        bail!("the answer is {head:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn scrapes_are_counted_until_one_fails() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = async move {
            for answer in ["200 OK", "200 OK", "503 Service Unavailable"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 1024];
                let read = stream.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..read]);
                assert!(request.starts_with("GET /metrics "), "{request}");
                // The admin address answers to names of its machine alone.
                assert!(
                    request.contains(&format!("Host: {address}\r\n")),
                    "{request}"
                );
                let answer = format!("HTTP/1.1 {answer}\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let mut scrapes = 0;
        let (error, ()) = tokio::join!(scrape(address, &mut scrapes), serving);
        assert_eq!(scrapes, 2);
        assert!(format!("{error:#}").contains("503"), "{error:#}");
    }
}
