//! One scrape of `/metrics`, read strictly: what Prometheus would refuse fails here.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::support::{PATIENCE, eventually};

/// What one scrape said.
#[derive(Clone, Debug, Default)]
pub(super) struct Scrape {
    /// Every series by its name and labels, as they were written.
    pub(super) series: BTreeMap<String, f64>,
    /// The type of each family.
    pub(super) types: BTreeMap<String, String>,
    pub(super) content_type: String,
    pub(super) text: String,
}

/// Asks for a page over HTTP/1.1.
pub(super) async fn get(admin: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let ask = async {
        let mut stream = TcpStream::connect(admin).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {admin}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = timeout(PATIENCE, ask).await.expect("an answer in time");
    let answer = String::from_utf8(answer.expect("an answer")).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let is_chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = if is_chunked {
        unchunked(body)
    } else {
        body.to_owned()
    };
    (head.to_owned(), body)
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").expect("a chunk's size");
        let size = usize::from_str_radix(size.trim(), 16).expect("a number");
        if size == 0 {
            return body;
        }
        body.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").expect("a chunk's end");
    }
}

impl Scrape {
    /// Scrapes the text format.
    pub(super) async fn of(admin: SocketAddr) -> Self {
        Self::accepting(admin, "text/plain").await
    }

    pub(super) async fn accepting(admin: SocketAddr, accept: &str) -> Self {
        let (head, text) = get(admin, "/metrics", accept).await;
        let mut scrape = Self::read(&text);
        let content_type = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-type").then_some(value)
        });
        content_type
            .expect("a content type")
            .clone_into(&mut scrape.content_type);
        scrape
    }

    /// Reads the text format, version 0.0.4, or what OpenMetrics has in common with it.
    fn read(text: &str) -> Self {
        let mut scrape = Self {
            text: text.to_owned(),
            ..Self::default()
        };
        let (mut family, mut helped) = (String::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("help");
                assert!(!help.trim().is_empty(), "{name} has no help");
                assert!(helped.insert(name.to_owned()), "{name} has help twice");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type");
                assert!(helped.contains(name), "{name} has no help before its type");
                family = name.to_owned();
                let before = scrape.types.insert(family.clone(), kind.to_owned());
                assert!(before.is_none(), "{name} has its type twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect("a sample");
                let name = series.split('{').next().unwrap_or_default();
                assert!(name.starts_with(&family), "{name} is not of {family}");
                let value: f64 = value.parse().expect("a number");
                let before = scrape.series.insert(series.to_owned(), value);
                assert!(before.is_none(), "{series} is there twice");
            }
        }
        scrape
    }

    /// The value of the only series with this name and these labels among others.
    pub(super) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut found = self.named(name).filter(|(series, _)| {
            let has =
                |(label, value): &(&str, &str)| series.contains(&format!("{label}=\"{value}\""));
            labels.iter().all(has)
        });
        let one = found.next().map(|(_, value)| value);
        assert!(found.next().is_none(), "several: {name} {labels:?}");
        one
    }

    /// Every series of this name.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = (&str, f64)> {
        let of = move |series: &str| series.split('{').next() == Some(name);
        let all = self.series.iter();
        all.filter(move |(series, _)| of(series))
            .map(|(series, value)| (series.as_str(), *value))
    }

    /// All series without their values.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        self.series.keys().cloned().collect()
    }
}

/// Scrapes until a series is as it should be.
pub(super) async fn becomes(
    admin: SocketAddr,
    name: &str,
    labels: &[(&str, &str)],
    fits: impl Fn(Option<f64>) -> bool,
) -> Scrape {
    eventually(
        &format!("{name} {labels:?} is as it should be"),
        async || {
            let scrape = Scrape::of(admin).await;
            let value = scrape.value(name, labels);
            if fits(value) {
                Ok(scrape)
            } else {
                Err(format!("{value:?}"))
            }
        },
    )
    .await
}
