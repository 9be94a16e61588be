//! What a slow, a large and an ordinary request meet.

use futures::future::poll_fn;
use tokio::{sync::mpsc, time::timeout};
use tonic::{Code, Status};

use super::*;

/// A body of pieces that come when they are sent.
struct Pieces(mpsc::Receiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let piece = std::task::ready!(self.0.poll_recv(cx));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }
}

struct Peer {
    to: mpsc::Sender<Bytes>,
    body: Bounded<Pieces>,
}

impl Peer {
    fn calling(unfinished: &Unfinished, path: &str) -> Self {
        let (to, pieces) = mpsc::channel(8);
        let request = http::Request::builder().uri(path).body(Pieces(pieces));
        let body = unfinished.bound(request.unwrap()).into_body();
        Self { to, body }
    }

    fn send(&self, data: &[u8]) {
        self.to.try_send(Bytes::copy_from_slice(data)).unwrap();
    }

    /// The first piece of a message.
    fn begin(&self, size: usize, piece: usize) {
        let mut data = vec![0];
        data.extend_from_slice(&u32::try_from(size).unwrap().to_be_bytes());
        data.resize(PREFIX + piece, 7);
        self.send(&data);
    }

    async fn next(&mut self) -> Option<Result<usize, Status>> {
        let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await?;
        Some(match frame {
            Ok(frame) => Ok(frame.data_ref().map_or(0, Bytes::len)),
            Err(error) => Err(Status::from_error(error)),
        })
    }

    async fn is_stuck(&mut self) -> bool {
        timeout(Duration::from_millis(10), self.next())
            .await
            .is_err()
    }
}

const UNARY: &str = "/ackgate.v1.GatewayService/Settle";
const STREAM: &str = "/ackgate.v1.GatewayService/Subscribe";

#[tokio::test(start_paused = true)]
async fn request_that_does_not_become_whole_ends_its_call() {
    for path in [UNARY, STREAM] {
        let mut peer = Peer::calling(&Unfinished::new(), path);
        peer.begin(100, 50);
        assert_eq!(peer.next().await.unwrap().unwrap(), PREFIX + 50);
        let status = peer.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{path}: {status:?}");
    }
    // A call that sends nothing at all, and one that sends its message and does not end.
    let mut silent = Peer::calling(&Unfinished::new(), UNARY);
    assert!(silent.next().await.unwrap().is_err());
    let mut open = Peer::calling(&Unfinished::new(), UNARY);
    open.begin(3, 3);
    assert!(open.next().await.unwrap().is_ok());
    assert!(open.next().await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn stream_may_be_quiet_between_messages() {
    let mut peer = Peer::calling(&Unfinished::new(), STREAM);
    for _ in 0..3 {
        let quiet = timeout(WITHIN * 3, peer.next()).await;
        assert!(quiet.is_err(), "nothing came: {quiet:?}");
        peer.begin(3, 1);
        assert!(peer.next().await.unwrap().is_ok());
        sleep(WITHIN / 2).await;
        peer.send(&[7, 7]);
        assert_eq!(peer.next().await.unwrap().unwrap(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn large_messages_wait_for_room_and_small_ones_do_not() {
    let unfinished = Unfinished::new();
    let most = ROOM / MAX_REQUEST_BYTES;
    let mut large: Vec<_> = (0..most)
        .map(|_| Peer::calling(&unfinished, UNARY))
        .collect();
    for peer in &mut large {
        peer.begin(MAX_REQUEST_BYTES, 1000);
        assert!(peer.next().await.unwrap().is_ok());
    }
    let mut late = Peer::calling(&unfinished, STREAM);
    late.begin(SMALL, 1000);
    assert!(late.is_stuck().await);
    let mut small = Peer::calling(&unfinished, STREAM);
    small.begin(SMALL - 1, 1000);
    assert!(small.next().await.unwrap().is_ok());
    // Whole, or given up: either makes room.
    drop(large.pop());
    assert!(late.next().await.unwrap().is_ok());
    let mut later = Peer::calling(&unfinished, UNARY);
    later.begin(MAX_REQUEST_BYTES, 0);
    assert!(later.is_stuck().await);
    let first = large.first_mut().unwrap();
    first.send(&vec![7; MAX_REQUEST_BYTES - 1000]);
    assert!(first.next().await.unwrap().is_ok());
    assert!(later.next().await.unwrap().is_ok());
}

#[test]
fn messages_are_told_apart_however_they_are_cut() {
    let mut data = Vec::new();
    for size in [0_usize, 1, 300, 0, 70_000] {
        data.push(0);
        data.extend_from_slice(&u32::try_from(size).unwrap().to_be_bytes());
        data.resize(data.len() + size, 7);
    }
    for cut in [1, 2, 3, 7, 4096, data.len()] {
        let mut progress = Progress::default();
        for piece in data.chunks(cut) {
            progress.advance(piece);
        }
        assert_eq!(progress.whole, 5, "cut at {cut}");
        assert!(progress.is_between());
        assert_eq!(progress.room(), None);
    }
    let mut progress = Progress::default();
    progress.advance(data.get(..data.len() - 1).unwrap());
    assert_eq!((progress.whole, progress.room()), (4, Some(70_000)));
}
