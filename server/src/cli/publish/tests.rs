//! `pub` against the embedded broker.

use clap::Parser as _;

use super::*;
use crate::broker::kafka::embedded::{Embedded, Options};

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn broker() -> Embedded {
    let topics = vec![("orders".to_owned(), 2)];
    Embedded::start(Options {
        topics,
        ..Options::default()
    })
    .unwrap()
}

fn parse(broker: &Embedded, more: &[&str]) -> Args {
    let bootstrap = broker.bootstrap();
    let fixed = ["pub", "--bootstrap", &bootstrap, "orders"];
    Cli::try_parse_from(fixed.iter().chain(more)).unwrap().args
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, text).unwrap();
    file
}

fn name(file: &tempfile::NamedTempFile) -> String {
    file.path().display().to_string()
}

static GO: AtomicBool = AtomicBool::new(false);

#[test]
fn every_line_of_every_file_is_written() {
    let broker = broker();
    let (one, two) = (file("a\nb\n"), file("c\n"));
    let summary = publish(&parse(&broker, &[&name(&one), &name(&two)]), &GO).unwrap();
    assert_eq!((summary.written, summary.failed, summary.bytes), (3, 0, 3));
    assert!(!summary.interrupted);
}

#[test]
fn bad_line_is_named_by_file_and_line_and_the_others_are_written() {
    let broker = broker();
    let (one, two) = (file("k=a\n"), file("k=b\nnone\nk=c\n"));
    let args = parse(&broker, &["-K", "=", &name(&one), &name(&two)]);
    let summary = publish(&args, &GO).unwrap();
    assert_eq!((summary.written, summary.failed), (3, 1));
    let failed = &summary.failures[0];
    assert_eq!(
        (failed.source.as_str(), failed.record),
        (name(&two).as_str(), 2)
    );
}

#[test]
fn partition_that_does_not_exist_is_refused_before_anything_is_written() {
    let broker = broker();
    let one = file("a\n");
    let error = publish(&parse(&broker, &["-p", "2", &name(&one)]), &GO).unwrap_err();
    assert!(error.to_string().contains("2 partitions"), "{error}");
    publish(&parse(&broker, &["-p", "1", &name(&one)]), &GO).unwrap();
}

#[test]
fn interrupted_run_says_so() {
    let broker = broker();
    let one = file("a\n");
    let summary = publish(&parse(&broker, &[&name(&one)]), &AtomicBool::new(true)).unwrap();
    assert!(summary.interrupted);
}

#[test]
fn cluster_must_be_named() {
    let args = Cli::try_parse_from(["pub", "orders"]).unwrap().args;
    assert!(
        publish(&args, &GO)
            .unwrap_err()
            .to_string()
            .contains("--bootstrap")
    );
}

#[test]
fn separator_may_be_written_as_backslash_t() {
    assert_eq!(separator("\\t").unwrap(), "\t");
    assert_eq!(separator("::").unwrap(), "::");
    separator("").unwrap_err();
}

#[tokio::test]
async fn exit_code_tells_whether_every_record_was_written() {
    let broker = broker();
    let (good, bad) = (file("k=a\n"), file("none\n"));
    let code = run(parse(&broker, &["-K", "=", &name(&good)]))
        .await
        .unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    let code = run(parse(&broker, &["-K", "=", &name(&bad)]))
        .await
        .unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));
}
