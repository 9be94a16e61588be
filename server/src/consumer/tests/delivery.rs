//! Who gets what, and how much.

use super::*;

#[tokio::test(start_paused = true)]
async fn in_flight_never_exceeds_the_credit_and_zero_pauses() {
    let broker = Memory::default();
    broker.append(0, 0..50);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 3).await;
    let got = peer.records(3).await;
    assert_eq!(got.len(), 3, "L8");
    assert!(peer.is_quiet(LONG / 3).await, "L8");
    let paused = Credit {
        records: 0,
        bytes: 0,
    };
    peer.tell(Input::Credit(peer.session, paused)).await;
    peer.settle(got[0].lane, 0, 2, Verdict::Acked).await;
    assert!(peer.is_quiet(LONG / 3).await, "zero pauses");
    let all = Credit {
        records: 100,
        bytes: 1 << 20,
    };
    peer.tell(Input::Credit(peer.session, all)).await;
    assert_eq!(peer.records(47).await.len(), 47);
}

#[tokio::test(start_paused = true)]
async fn subscriber_that_does_not_read_is_cut_off_and_costs_no_memory() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 2).await;
    for sequence in 0..2 * OUTBOX as u64 {
        let (session, refused) = (peer.session, Vec::new());
        let verdicts = Vec::new();
        peer.tell(Input::Settle {
            session,
            sequence,
            verdicts,
            refused,
            confirm: Confirm::Applied,
            ticket: None,
        })
        .await;
    }
    let end = tokio::time::timeout(LONG, &mut peer.cut)
        .await
        .expect("in time");
    assert_eq!(end, Ok(End::NotReading));
    let mut other = Peer::attach(&handle, 2, 100).await;
    assert_eq!(
        other.records(10).await.len(),
        10,
        "L14: others get everything"
    );
}
