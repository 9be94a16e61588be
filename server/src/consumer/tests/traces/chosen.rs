//! Trace ids that producers choose: how many records are traced because of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use super::{super::logged::Log, *};

/// A subscription that is handed many records at once.
fn wide(order: Order) -> Subscription {
    let mut subscription = configured(order);
    subscription.policy.window.records = 10_000;
    subscription.window_bytes = 1 << 24;
    subscription
}

async fn greedy(traced: &Traced) -> Peer {
    let peer = Peer::attach(&traced.handle, 1, 20_000).await;
    peer.grant(20_000, 1 << 24).await;
    peer
}

/// A header whose trace has `low` as its last 64 bits.
fn header(low: u64) -> String {
    format!("00-0af7651916cd43dd{low:016x}-{PRODUCER}-01")
}

/// The next `count` records, and those of them that are traced.
async fn take(peer: &mut Peer, count: u64, verdict: Option<Verdict>) -> (u64, BTreeSet<u64>) {
    let mut traced = BTreeSet::new();
    let mut left = count;
    let mut of = 0;
    while left > 0 {
        let Outbound::Batch(batch) = peer.next().await else {
            panic!("a batch is due")
        };
        let offset = |it: &ackgate_proto::v1::RecordTrace| u64::try_from(it.offset).unwrap();
        traced.extend(batch.traces.iter().map(offset));
        let ranges = batch.ranges.clone();
        of = batch.lane.lane;
        peer.tell(Input::Sent {
            session: peer.session,
            lane: of,
            ranges: batch.ranges,
        })
        .await;
        for range in ranges {
            left = left.saturating_sub(range.len());
            let (first, last) = (range.first().get(), range.last().get());
            if let Some(verdict) = verdict {
                peer.declare(of, first, last, verdict, Confirm::Problems)
                    .await;
            }
        }
    }
    (of, traced)
}

#[tokio::test(start_paused = true)]
async fn records_whose_producer_chose_low_ids_are_traced_within_a_bound() {
    let began = SystemTime::now();
    let broker = Memory::default();
    for offset in 0..4000 {
        broker.append_with(0, offset, &[("traceparent", &header(offset))]);
    }
    // Ids that nobody chose are not held back beside them.
    broker.append(0, 4000..9000);
    let sampling = Sampling::new(Sampler::new(0.001, false), "test").unwrap();
    let seed = sampling.seed("orders", 0);
    let own = (4000..9000).filter(|at| Sampler::new(0.001, false).takes(seed.trace(*at)));
    let own: BTreeSet<u64> = own.collect();
    assert!(!own.is_empty());

    let traced = Traced::begin(broker, 0.001, wide(Order::None));
    let mut peer = greedy(&traced).await;
    let (_, told) = take(&mut peer, 9000, Some(Verdict::Acked)).await;
    let chosen = told.range(..4000).count();
    let seconds = began.elapsed().unwrap().as_secs_f64();
    // A burst, four times the ratio, and 100 a second, however long this took.
    let most = 1000.0 + 0.004 * 9000.0 + 100.0 * seconds;
    assert!(chosen >= 1000, "{chosen}");
    assert!(
        f64::from(u32::try_from(chosen).unwrap()) <= most,
        "{chosen} of {most}"
    );
    assert_eq!(told.range(4000..).copied().collect::<BTreeSet<_>>(), own);
}

#[tokio::test(start_paused = true)]
async fn records_whose_producers_chose_nothing_are_all_traced() {
    let broker = Memory::default();
    let ratio = 0.2;
    let mut expected = BTreeSet::new();
    let mut random = fastrand::Rng::with_seed(7);
    for offset in 0..10_000 {
        let low = random.u64(..);
        broker.append_with(0, offset, &[("traceparent", &header(low))]);
        if Sampler::new(ratio, false).takes(u128::from(low).into()) {
            expected.insert(offset);
        }
    }
    assert!(expected.len() > 1500, "more than is saved up");
    let traced = Traced::begin(broker, ratio, wide(Order::None));
    let mut peer = greedy(&traced).await;
    let (_, told) = take(&mut peer, 10_000, Some(Verdict::Acked)).await;
    assert_eq!(told.len(), expected.len());
    assert!(told == expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_held_back_is_told_with_its_end() {
    let (log, _until_the_end) = Log::begin();
    let broker = Memory::default();
    for offset in 0..4000 {
        broker.append_with(0, offset, &[("traceparent", &header(offset))]);
    }
    let ratio = 0.1;
    let traced = Traced::begin(broker, ratio, wide(Order::None));
    let mut peer = greedy(&traced).await;
    // A burst and 0.4 of what comes may be traced; the rest is more than 10 s earn.
    let (_, told) = take(&mut peer, 4000, Some(Verdict::Acked)).await;
    let begins = "more records bring a sampled trace than the ratio makes likely";
    assert!(
        log.text()
            .contains(&format!("{begins}: some are not traced"))
    );
    assert!(told.len() < 4000, "{}", told.len());
    let ends = format!("no {begins}");
    assert!(!log.text().contains(&ends), "{}", log.text());
    // What honest records earn is saved up again.
    traced.broker.append(0, 4000..12_000);
    take(&mut peer, 8000, Some(Verdict::Acked)).await;
    assert!(log.text().contains(&ends), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn record_that_is_traced_stays_so_when_it_is_fetched_again() {
    let broker = Memory::default();
    for offset in 0..1500 {
        broker.append_with(0, offset, &[("traceparent", &header(offset))]);
    }
    let order = Order::Lane { skip_acked: false };
    let traced = Traced::begin(broker, 0.001, wide(order));
    let mut peer = greedy(&traced).await;
    let (lane, before) = take(&mut peer, 1500, None).await;
    peer.settle(lane, 0, 0, FAILED).await;
    let (lane, after) = take(&mut peer, 1500, None).await;
    assert!(before.is_subset(&after));
    peer.settle(lane, 0, 1499, Verdict::Acked).await;
    traced.committed(1500).await;
    let mut polls = BTreeMap::new();
    for span in traced.spans("process") {
        let offset: u64 = has(&span, "messaging.kafka.offset")
            .unwrap()
            .parse()
            .unwrap();
        let of: &mut Vec<_> = polls.entry(offset).or_default();
        of.push(span.links.iter().next().unwrap().span_context.span_id());
    }
    for offset in before {
        let polls = &polls[&offset];
        assert_eq!(polls.len(), 2, "{offset}");
        assert_ne!(polls[0], polls[1], "{offset}: the fetch that brought it");
    }
}

#[tokio::test(start_paused = true)]
async fn fetch_of_which_nothing_is_traced_for_its_ids_is_not_told_of() {
    let broker = Memory::default();
    for offset in 0..6000 {
        broker.append_with(0, offset, &[("traceparent", &header(offset))]);
    }
    // So that each fetch has few records: each would have a span.
    let mut subscription = wide(Order::None);
    subscription.policy.window.records = 10;
    let traced = Traced::begin(broker, 0.001, subscription);
    let mut peer = greedy(&traced).await;
    let began = SystemTime::now();
    let (_, told) = take(&mut peer, 6000, Some(Verdict::Acked)).await;
    let polls = traced.spans("poll").len();
    // Those that were told for their own sake, one in a thousand, come on top.
    assert!(polls <= told.len() + 10, "{polls} for {}", told.len());
    let seconds = began.elapsed().unwrap().as_secs();
    assert!(seconds > 40 || told.len() < 6000, "some were held back");
}
