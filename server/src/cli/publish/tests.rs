//! `pub` straight to the embedded broker, and how its arguments fit together.

use std::path::PathBuf;

use clap::Parser as _;

use super::*;
use crate::{
    broker::kafka::embedded::{Embedded, Options},
    cli::Usage,
};

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

fn parsed(words: &[&str]) -> Result<Args, String> {
    let words = std::iter::once(&"pub").chain(words);
    let cli = Cli::try_parse_from(words);
    cli.map(|cli| cli.args).map_err(|error| error.to_string())
}

async fn publish_to(broker: &Embedded, more: &[&str]) -> Result<Summary> {
    let bootstrap = broker.bootstrap();
    let words = [&["--bootstrap", &bootstrap, "orders"], more].concat();
    let mut stop = Stop::new().unwrap();
    let outcome = publish(&parsed(&words).unwrap(), &mut stop).await?;
    Ok(outcome.unwrap().summary)
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, text).unwrap();
    file
}

fn name(file: &tempfile::NamedTempFile) -> String {
    file.path().display().to_string()
}

#[tokio::test]
async fn every_line_of_every_file_is_written() {
    let broker = broker();
    let (one, two) = (file("a\nb\n"), file("c\n"));
    let summary = publish_to(&broker, &[&name(&one), &name(&two)]).await;
    let summary = summary.unwrap();
    assert_eq!((summary.written, summary.failed, summary.bytes), (3, 0, 3));
    assert!(summary.is_complete());
}

#[tokio::test]
async fn bad_line_is_named_by_file_and_line_and_the_others_are_written() {
    let broker = broker();
    let (one, two) = (file("k=a\n"), file("k=b\nnone\nk=c\n"));
    let args = ["-K", "=", &name(&one), &name(&two)];
    let summary = publish_to(&broker, &args).await.unwrap();
    assert_eq!((summary.written, summary.failed), (3, 1));
    let failed = &summary.failures[0];
    assert_eq!((&failed.source, failed.record), (&name(&two), 2));
}

#[tokio::test]
async fn record_that_kafka_refuses_is_named_by_file_and_line_too() {
    let broker = broker();
    let lines = file("{\"value\":1}\n\n{\"value\":2,\"partition\":7}\n{\"value\":3}\n");
    let args = ["--ndjson", &name(&lines)];
    let summary = publish_to(&broker, &args).await.unwrap();
    assert_eq!((summary.written, summary.failed), (2, 1));
    let failed = &summary.failures[0];
    assert_eq!((&failed.source, failed.record), (&name(&lines), 3));
    let summary = publish_to(&broker, &["--repartition", args[0], args[1]]).await;
    assert_eq!(summary.unwrap().written, 3);
}

#[tokio::test]
async fn partition_that_does_not_exist_is_refused_before_anything_is_written() {
    let broker = broker();
    let one = file("a\n");
    let error = publish_to(&broker, &["-p", "2", &name(&one)]).await;
    let error = error.unwrap_err();
    assert!(error.to_string().contains("2 partitions"), "{error}");
    publish_to(&broker, &["-p", "1", &name(&one)])
        .await
        .unwrap();
}

#[tokio::test]
async fn exit_code_tells_whether_every_record_was_written() {
    let broker = broker();
    let (good, bad) = (file("k=a\n"), file("none\n"));
    let bootstrap = broker.bootstrap();
    for (file, expected) in [(&good, ExitCode::SUCCESS), (&bad, ExitCode::FAILURE)] {
        let file = name(file);
        let words = ["--bootstrap", &bootstrap, "orders", "-K", "=", &file];
        let code = run(parsed(&words).unwrap()).await.unwrap();
        assert_eq!(format!("{code:?}"), format!("{expected:?}"));
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    for wrong in [
        &["--own-topics"][..],
        &["t", "--own-topics"],
        &["t", "--repartition"],
        &["t", "--ndjson", "--file-per-record"],
        &["t", "--ndjson", "-K", ":"],
        &["t", "--file-per-record", "-K", ":"],
        &["t", "--ndjson", "--repartition", "-p", "1"],
        &["t", "--rate", "0"],
        &["t", "--property", "a=b"],
        &["t", "--bootstrap", "h", "--cluster", "main"],
        &["t", "--bootstrap", "h", "--config", "f"],
        &[],
    ] {
        assert!(parsed(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn first_argument_is_a_file_where_each_object_names_its_topic() {
    let args = parsed(&["--ndjson", "--own-topics", "a", "b"]).unwrap();
    assert_eq!(args.topic(), None);
    assert_eq!(args.files(), ["a", "b"].map(PathBuf::from));
    let args = parsed(&["--ndjson", "t", "b"]).unwrap();
    assert_eq!(args.topic(), Some("t"));
    assert_eq!(args.files(), [PathBuf::from("b")]);
}

#[test]
fn without_a_cluster_it_goes_through_the_gateway() {
    assert!(parsed(&["t"]).unwrap().cluster().unwrap().is_none());
    let args = parsed(&["t", "--bootstrap", "h", "--property", "client.id=me"]).unwrap();
    let cluster = args.cluster().unwrap().unwrap();
    assert_eq!(cluster.bootstrap, ["h:9092"]);
    assert!(
        cluster
            .properties
            .contains(&("client.id".into(), "me".into()))
    );
    assert!(
        parsed(&["t", "--bootstrap", "h", "--acks", "none"])
            .unwrap()
            .direct_acks()
            .is_err_and(|error| error.is::<Usage>())
    );
}

#[test]
fn configuration_lends_its_cluster() {
    let subscription = "[subscriptions.s]\ncluster = \"a\"\ntopics = [\"t\"]\ngroup = \"g\"\n\
        start = \"earliest\"\non_reject = \"drop\"\n";
    let one = file(&format!(
        "[clusters.a]\nbootstrap = [\"h:1\"]\n{subscription}"
    ));
    let two = file(&format!(
        "[clusters.a]\nbootstrap = [\"h:1\"]\n[clusters.b]\nbootstrap = [\"h:2\"]\n{subscription}"
    ));
    let cluster = |words: &[&str]| parsed(words).unwrap().cluster();
    let found = cluster(&["t", "--config", &name(&one)]).unwrap().unwrap();
    assert_eq!(found.bootstrap, ["h:1"]);
    let found = cluster(&["t", "--config", &name(&two), "--cluster", "b"]);
    assert_eq!(found.unwrap().unwrap().bootstrap, ["h:2"]);
    let error = cluster(&["t", "--config", &name(&two)]).unwrap_err();
    assert!(error.to_string().contains("one of a, b"), "{error}");
    let error = cluster(&["t", "--config", &name(&one), "--cluster", "c"]);
    let error = error.unwrap_err();
    assert!(error.to_string().contains("only a") && error.is::<Usage>());
}

#[test]
fn arguments_fill_in_what_a_record_does_not_say() {
    let args = parsed(&["t", "--ndjson", "-k", "K", "-H", "h=2"]).unwrap();
    let finish = |line: &str| {
        let draft = object::read(line.as_bytes()).unwrap();
        draft.finish(&args).unwrap()
    };
    let record = finish(r#"{"topic":"other","value":"v","headers":{"h":"1"},"partition":3}"#);
    assert_eq!((record.topic.as_str(), record.partition), ("t", Some(3)));
    assert_eq!(record.key.as_deref(), Some(&b"K"[..]));
    let header = |value: &str| ("h".to_owned(), Some(value.as_bytes().to_vec()));
    assert_eq!(record.headers, [header("1"), header("2")]);
    // Null is said, missing is not.
    assert_eq!(finish(r#"{"key":null,"value":"v"}"#).key, None);
    let own = parsed(&["--ndjson", "--own-topics", "-p", "1"]).unwrap();
    let draft = object::read(br#"{"topic":"other","value":"v","partition":3}"#).unwrap();
    let record = draft.finish(&own).unwrap();
    assert_eq!(
        (record.topic.as_str(), record.partition),
        ("other", Some(1))
    );
    let draft = object::read(br#"{"value":"v"}"#).unwrap();
    assert!(draft.finish(&own).unwrap_err().contains("topic"));
}
