//! What a publisher must keep to, and how its stream ends otherwise.

use ackgate_proto::v1::{
    Acks, OutgoingRecord, PublishBatchRequest, PublishClose, PublishOptions, PublishRecords,
    PublishRequest, publish_request::Request,
};
use prost_types::Duration as Wire;
use tonic::Code;

use super::{
    publish::{open, publishing, written},
    support::{Case, Publishing, Stage, Topic, calls, cases, reason, record},
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded:
            rules_of_the_stream_end_it_after_its_results,
            options_that_cannot_stand_are_refused,
            cluster_without_publish_takes_nothing,
            publishers_that_are_not_read_leave_their_connection_to_others;
    ]
}

async fn rules_of_the_stream_end_it_after_its_results(stage: Stage) {
    let topic = stage.topic("rules", 1).await;
    let gateway = publishing(&stage, "").await;
    let records = |records| Request::Records(PublishRecords { records });
    let first = records(vec![record(&topic, "v")]);
    for (request, code) in [
        (first.clone(), "OPEN_EXPECTED"),
        (Request::Close(Default::default()), "OPEN_EXPECTED"),
    ] {
        let mut stream = Publishing::connect(gateway.address).await;
        stream.send(request).await;
        let status = stream.status().await;
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, code)
        );
    }
    let again = Request::Open(PublishOptions::default());
    let huge = records(vec![record(&topic, vec![b'x'; 17 << 20])]);
    let many = records(vec![record(&topic, "v"); 10_001]);
    // Small as bytes, and large once each is a record in memory.
    let crowd = || vec![OutgoingRecord::default(); 200_001];
    let close = |seconds| {
        let timeout = Some(Wire { seconds, nanos: 0 });
        Request::Close(PublishClose { timeout })
    };
    let mut written_so_far = 0;
    for (request, code, reason_code) in [
        (again, Code::FailedPrecondition, "ALREADY_OPEN"),
        (
            records(Vec::new()),
            Code::InvalidArgument,
            "RECORDS_OUT_OF_RANGE",
        ),
        (many, Code::InvalidArgument, "RECORDS_OUT_OF_RANGE"),
        (huge, Code::InvalidArgument, "MESSAGE_TOO_LARGE"),
        (records(crowd()), Code::InvalidArgument, "MESSAGE_TOO_LARGE"),
        (close(301), Code::InvalidArgument, "OPEN_INVALID"),
        (close(-1), Code::InvalidArgument, "OPEN_INVALID"),
    ] {
        let mut stream = open(&gateway).await;
        stream.send(first.clone()).await;
        stream.send(request).await;
        let status = stream.status().await;
        assert_eq!(status.code(), code, "{status:?}");
        assert_eq!(reason(&status), reason_code);
        assert_eq!(stream.results.len(), 1, "what was taken before is answered");
        written(&stream.results[0]);
        assert_eq!(stream.closed, None);
        written_so_far += 1;
    }
    let mut stream = open(&gateway).await;
    let nothing = PublishRequest { request: None };
    stream.sender().send(nothing).await.unwrap();
    assert_eq!(reason(&stream.status().await), "EMPTY_REQUEST");
    for records in [vec![record(&topic, vec![b'x'; 17 << 20])], crowd()] {
        let call = PublishBatchRequest {
            options: None,
            records,
        };
        let refused = calls(gateway.address).await.publish_batch(call).await;
        let status = refused.expect_err("a call is no larger than a message");
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert_eq!(reason(&status), "MESSAGE_TOO_LARGE");
    }
    stage.holds(&topic, written_so_far).await;
}

async fn options_that_cannot_stand_are_refused(stage: Stage) {
    let gateway = publishing(&stage, "").await;
    let of = |seconds, nanos| Some(Wire { seconds, nanos });
    let fine = PublishOptions::default();
    for options in [
        PublishOptions {
            acks: Acks::Leader.into(),
            idempotence: Some(true),
            ..fine.clone()
        },
        PublishOptions {
            acks: 17,
            ..fine.clone()
        },
        PublishOptions {
            timeout: of(0, 99_000_000),
            ..fine.clone()
        },
        PublishOptions {
            timeout: of(301, 0),
            ..fine.clone()
        },
        PublishOptions {
            timeout: of(-1, 0),
            ..fine.clone()
        },
    ] {
        let mut stream = Publishing::connect(gateway.address).await;
        stream.send(Request::Open(options.clone())).await;
        let status = stream.status().await;
        assert_eq!(
            status.code(),
            Code::InvalidArgument,
            "{options:?}: {status:?}"
        );
        assert_eq!(reason(&status), "OPEN_INVALID");
        let request = PublishBatchRequest {
            options: Some(options),
            records: vec![OutgoingRecord::default()],
        };
        let status = calls(gateway.address)
            .await
            .publish_batch(request)
            .await
            .unwrap_err();
        assert_eq!(reason(&status), "OPEN_INVALID");
    }
    let options = PublishOptions {
        cluster: "none".to_owned(),
        ..fine
    };
    let mut stream = Publishing::connect(gateway.address).await;
    stream.send(Request::Open(options)).await;
    let status = stream.status().await;
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::NotFound, "UNKNOWN_CLUSTER")
    );
}

async fn cluster_without_publish_takes_nothing(stage: Stage) {
    let topic = stage.topic("off", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    for cluster in ["", "main"] {
        let options = PublishOptions {
            cluster: cluster.to_owned(),
            ..PublishOptions::default()
        };
        let mut stream = Publishing::connect(gateway.address).await;
        stream.send(Request::Open(options)).await;
        let status = stream.status().await;
        assert_eq!(status.code(), Code::PermissionDenied);
        assert_eq!(reason(&status), "PUBLISH_OFF");
    }
}

async fn publishers_that_are_not_read_leave_their_connection_to_others(stage: Stage) {
    let topic = stage.topic("shared", 1).await;
    let more = "clusters.main.publish.max_in_flight_records = 1";
    let gateway = publishing(&stage, more).await;
    let connection = super::support::connection(gateway.address).await.unwrap();
    let mut stuck = Vec::new();
    for _ in 0..8 {
        let options = PublishOptions::default();
        let stream = Publishing::open_over(connection.clone(), options).await;
        stuck.push(stream);
    }
    stage.broker.faults().set_reachable(false).unwrap();
    for stream in &stuck {
        // More than the window of a stream.
        for _ in 0..3 {
            stream
                .records(vec![record(&topic, vec![0; 1_000_000]); 2])
                .await;
        }
    }
    let elsewhere = Topic {
        name: "elsewhere".to_owned(),
    };
    let request = PublishBatchRequest {
        options: None,
        records: vec![record(&elsewhere, vec![0; 500_000]); 4],
    };
    let mut calls = super::support::calls_over(connection);
    let results = calls
        .publish_batch(request)
        .await
        .unwrap()
        .into_inner()
        .results;
    assert_eq!(results.len(), 4);
    drop(stuck);
}
