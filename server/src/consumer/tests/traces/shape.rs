//! What spans say: from when, of which record, and which there are none of.

use std::time::SystemTime;

use super::*;

#[tokio::test(start_paused = true)]
async fn span_begins_when_its_batch_is_handed_over_and_says_the_records_size() {
    let traced = Traced::one(Order::None);
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let Outbound::Batch(batch) = peer.next().await else {
        panic!("a batch is due")
    };
    let handed_over = SystemTime::now();
    let lane = batch.lane.lane;
    peer.tell(Input::Sent {
        session: peer.session,
        lane,
        ranges: batch.ranges,
    })
    .await;
    peer.settle(lane, 0, 0, Verdict::Acked).await;
    let process = traced.until("process", 1).await.remove(0);
    assert!(process.start_time >= handed_over);
    assert!(process.end_time >= process.start_time);
    let value = "value 0".len().to_string();
    assert_eq!(
        has(&process, "messaging.message.body.size"),
        Some(value),
        "in bytes"
    );
    assert_eq!(has(&process, "messaging.kafka.message.tombstone"), None);
    assert_eq!(has(&process, "ackgate.delivery").as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn record_without_a_value_is_a_tombstone_and_has_no_size() {
    let broker = Memory::default();
    broker.append(0, [0]);
    broker.with(|state| {
        let log = state.log.get_mut(&0).unwrap();
        let mut batch: ackgate_proto::v1::Batch = prost::Message::decode(log[&0].clone()).unwrap();
        batch.records[0].value = None;
        log.insert(0, prost::Message::encode_to_vec(&batch).into());
    });
    let traced = Traced::begin(broker, 1.0, configured(Order::None));
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Acked).await;
    let process = traced.until("process", 1).await.remove(0);
    let tombstone = has(&process, "messaging.kafka.message.tombstone");
    assert_eq!(tombstone.as_deref(), Some("true"));
    assert_eq!(has(&process, "messaging.message.body.size"), None);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_span_says_where_the_letter_lies() {
    let traced = Traced::one(Order::None);
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    let send = traced.until("send", 1).await.remove(0);
    let of = |key: &str| has(&send, key);
    assert_eq!(
        of("messaging.destination.name").as_deref(),
        Some("orders.dead-letter")
    );
    assert_eq!(
        of("messaging.destination.partition.id").as_deref(),
        Some("0")
    );
    assert_eq!(of("messaging.kafka.offset").as_deref(), Some("0"));
}

// FC-91.
#[tokio::test(start_paused = true)]
async fn delivery_that_a_silent_group_voids_ends_fenced() {
    let broker = Memory::default();
    broker.with(|state| state.session = Some(Duration::from_secs(10)));
    broker.append(0, [0]);
    let traced = Traced::begin(broker, 1.0, configured(Order::None));
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    peer.records(1).await;
    let process = traced.until("process", 1).await.remove(0);
    assert_eq!(has(&process, "ackgate.verdict").as_deref(), Some("fenced"));
    assert_eq!(process.status, Status::error("fenced"));
}

#[tokio::test(start_paused = true)]
async fn commit_links_to_what_it_passes_and_not_to_what_others_passed() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let traced = Traced::begin(broker, 1.0, configured(Order::None));
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let lane = peer.records(2).await[0].lane;
    for offset in 0..2 {
        peer.settle(lane, offset, offset, Verdict::Acked).await;
        traced.committed(offset + 1).await;
    }
    let process = traced.until("process", 2).await;
    let commit = traced.until("commit", 2).await;
    for (process, commit) in process.iter().zip(&commit) {
        assert_eq!(links(commit), [process.span_context.span_id()]);
    }
}

#[tokio::test(start_paused = true)]
async fn lane_without_traced_records_tells_of_no_fetch_commit_or_seek() {
    // As good as none is traced, and as good as nothing is told for its own sake.
    let ratio = 1e-12;
    let broker = Memory::default();
    broker.append(0, 0..3);
    let order = Order::Lane { skip_acked: false };
    let traced = Traced::begin(broker, ratio, configured(order));
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.settle(lane, 0, 0, FAILED).await;
    peer.records(3).await;
    peer.settle(lane, 0, 2, Verdict::Acked).await;
    traced.committed(3).await;
    let spans = traced.spans("");
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["rebalance"]);
    assert_eq!(has(&spans[0], "ackgate.lanes").as_deref(), Some("1"));
}
