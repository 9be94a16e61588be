//! [`Shared`]: a page that many may ask for at a time, made once for all who wait for it.
//!
//! **Invariants**: a page is made after it was asked for; asking more often makes no more
//! pages, so that nobody is kept from one by others who ask. At most [`PAGES`] are held for
//! readers that are slow, or never read: if there is need of room the oldest is dropped,
//! once it has had its time, and its answers end in an error.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use axum::{
    body::Body,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::stream;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, timeout_at},
};

/// Pages that are being read at a time.
const PAGES: usize = 8;

/// Time to read one that is in the way of the next.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Those who ask while a page is made. More wait for their turn to ask.
const ASKED: usize = 256;

/// Bytes that are on their way to one reader at a time.
const PIECE: usize = 16 * 1024;

/// What a page says.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// How it is answered.
    pub(crate) status: StatusCode,
    /// Its media type.
    pub(crate) content_type: HeaderValue,
    /// All of it.
    pub(crate) text: String,
}

/// Who asks, and for which kind.
type Asked<K> = (K, oneshot::Sender<Arc<Page>>);

/// The page, in kinds. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Shared<K>(mpsc::Sender<Asked<K>>);

impl<K: Copy + Ord + Send + 'static> Shared<K> {
    /// Of what `make` makes. Must be called within a runtime; lives as long as its clones.
    pub(crate) fn new<F>(make: impl Fn(K) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Text> + Send,
    {
        let (ask, mut asked) = mpsc::channel::<Asked<K>>(ASKED);
        tokio::spawn(async move {
            let mut held = Pages::default();
            let mut waiting = Vec::new();
            while asked.recv_many(&mut waiting, ASKED).await > 0 {
                let mut by_kind: BTreeMap<K, Vec<_>> = BTreeMap::new();
                for (kind, answer) in waiting.drain(..) {
                    by_kind.entry(kind).or_default().push(answer);
                }
                for (kind, mut answers) in by_kind {
                    answers.retain(|answer| !answer.is_closed());
                    if answers.is_empty() {
                        continue;
                    }
                    let Some(room) = held.room().await else {
                        return;
                    };
                    let page = held.hold(make(kind).await, room);
                    for answer in answers {
                        // Who has gone needs none.
                        let _gone = answer.send(Arc::clone(&page));
                    }
                }
            }
        });
        Self(ask)
    }

    /// The page as it is now.
    ///
    /// Cancel safe: then nobody waits.
    pub(crate) async fn ask(&self, kind: K) -> Response {
        let (answer, heard) = oneshot::channel();
        let asked = self.0.send((kind, answer)).await;
        match (asked, heard.await) {
            (Ok(()), Ok(page)) => page.answer(),
            _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

/// A page that is being read.
#[derive(Debug)]
struct Page {
    status: StatusCode,
    content_type: HeaderValue,
    length: usize,
    /// `None`: it had to go.
    text: Mutex<Option<(Bytes, OwnedSemaphorePermit)>>,
}

impl Page {
    fn answer(self: Arc<Self>) -> Response {
        let head = [
            (CONTENT_TYPE, self.content_type.clone()),
            (CONTENT_LENGTH, HeaderValue::from(self.length)),
        ];
        let status = self.status;
        let pieces = stream::unfold((Some(self), 0), |(page, at)| async move {
            let page = page?;
            match page.piece(at) {
                Ok(piece) if piece.is_empty() => None,
                Ok(piece) => {
                    let next = at + piece.len();
                    Some((Ok(piece), (Some(page), next)))
                }
                Err(error) => Some((Err(error), (None, at))),
            }
        });
        (status, head, Body::from_stream(pieces)).into_response()
    }

    /// The next bytes from `at` on; none at the end.
    fn piece(&self, at: usize) -> io::Result<Bytes> {
        let text = self.text.lock();
        let (text, _) = text.as_ref().ok_or(io::ErrorKind::TimedOut)?;
        let end = text.len().min(at.saturating_add(PIECE));
        // What is passed on must not keep the rest.
        Ok(text
            .get(at..end)
            .map(Bytes::copy_from_slice)
            .unwrap_or_default())
    }
}

/// All pages that are being read.
#[derive(Debug)]
struct Pages {
    room: Arc<Semaphore>,
    /// The oldest first, and since when there is each.
    held: VecDeque<(Instant, Weak<Page>)>,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(PAGES)),
            held: VecDeque::new(),
        }
    }
}

impl Pages {
    /// Room for one more: at once, or when one is read to its end, or has had its time.
    async fn room(&mut self) -> Option<OwnedSemaphorePermit> {
        loop {
            self.held.retain(|(_, page)| page.strong_count() > 0);
            let room = Arc::clone(&self.room).acquire_owned();
            let Some((since, oldest)) = self.held.front() else {
                return room.await.ok();
            };
            match timeout_at(*since + READ_WITHIN, room).await {
                Ok(room) => return room.ok(),
                Err(_elapsed) => {
                    if let Some(page) = oldest.upgrade() {
                        drop(page.text.lock().take());
                    }
                    self.held.pop_front();
                }
            }
        }
    }

    fn hold(&mut self, text: Text, room: OwnedSemaphorePermit) -> Arc<Page> {
        let page = Arc::new(Page {
            status: text.status,
            content_type: text.content_type,
            length: text.text.len(),
            text: Mutex::new(Some((text.text.into(), room))),
        });
        let entry = (Instant::now(), Arc::downgrade(&page));
        self.held.push_back(entry);
        page
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::body::to_bytes;
    use futures::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    /// A page that says its number and has a long rest, made once `may` says so.
    fn numbered(may: &Arc<Notify>) -> (Shared<u8>, Arc<AtomicUsize>) {
        let made = Arc::new(AtomicUsize::new(0));
        let (count, may) = (Arc::clone(&made), Arc::clone(may));
        let shared = Shared::new(move |kind: u8| {
            let (count, may) = (Arc::clone(&count), Arc::clone(&may));
            async move {
                may.notified().await;
                let number = count.fetch_add(1, Ordering::Relaxed);
                Text {
                    status: StatusCode::OK,
                    content_type: HeaderValue::from_static("text/plain"),
                    text: format!("{kind} {number} ") + &"x".repeat(3 * PIECE),
                }
            }
        });
        (shared, made)
    }

    async fn read(response: Response) -> Result<String, axum::Error> {
        let length: usize = response.headers()[CONTENT_LENGTH]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        let text = to_bytes(response.into_body(), usize::MAX).await?;
        assert_eq!(text.len(), length);
        Ok(String::from_utf8_lossy(&text[..3]).into_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_share_a_page_made_after_they_asked() {
        let may = Arc::new(Notify::new());
        let (shared, made) = numbered(&may);
        let first = tokio::spawn({
            let shared = shared.clone();
            async move { shared.ask(1).await }
        });
        // It is being made: those who come now get the next one.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let others = (0..100).map(|_| {
            let shared = shared.clone();
            tokio::spawn(async move { shared.ask(1).await })
        });
        let others: Vec<_> = others.collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        may.notify_one();
        assert_eq!(read(first.await.unwrap()).await.unwrap(), "1 0");
        may.notify_one();
        for other in join_all(others).await {
            assert_eq!(read(other.unwrap()).await.unwrap(), "1 1");
        }
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn pages_that_nobody_reads_make_room() {
        let may = Arc::new(Notify::new());
        let (shared, made) = numbered(&may);
        let mut unread = Vec::new();
        for kind in 0..8 {
            may.notify_one();
            unread.push(shared.ask(kind).await);
        }
        assert_eq!(made.load(Ordering::Relaxed), PAGES);
        may.notify_one();
        let begun = Instant::now();
        let next = shared.ask(9).await;
        assert_eq!(begun.elapsed(), READ_WITHIN);
        assert_eq!(read(next).await.unwrap(), "9 8");
        let mut unread = unread.into_iter();
        let oldest = read(unread.next().unwrap()).await;
        assert!(oldest.is_err(), "{oldest:?}");
        assert_eq!(read(unread.next().unwrap()).await.unwrap(), "1 1");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_made_for_those_who_have_gone() {
        let may = Arc::new(Notify::new());
        let (shared, made) = numbered(&may);
        let asked = tokio::time::timeout(Duration::from_secs(1), shared.ask(1));
        assert!(asked.await.is_err());
        let asked = tokio::time::timeout(Duration::from_secs(1), shared.ask(2));
        assert!(asked.await.is_err());
        may.notify_one();
        may.notify_one();
        let page = read(shared.ask(3).await).await.unwrap();
        assert_eq!(page, "3 1");
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }
}
