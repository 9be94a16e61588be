//! [`attach`]: a session begins, and whatever happens to it, the driver is told once that
//! it has ended.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use super::{handshake::Opening, outcome::shutting_down};
use crate::{
    consumer::{Accepted, Attach, Departure, End, Handle, Input, OUTBOX, Outbound, Session},
    registry::Lease,
};

/// A session that takes part.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) accepted: Accepted,
    /// What it hears.
    pub(super) messages: mpsc::Receiver<Outbound>,
    /// That it ends at once.
    pub(super) cut: oneshot::Receiver<End>,
    pub(super) goodbye: Goodbye,
}

/// Lets the session take part.
///
/// Cancel safe: if it is dropped, the session is lost before it began.
///
/// # Errors
/// It may not.
pub(super) async fn attach(opening: &mut Opening, session: Session) -> Result<Attached, Status> {
    let handle = opening.handle.clone();
    let (outbox, messages) = mpsc::channel(OUTBOX);
    let (cut, cut_heard) = oneshot::channel();
    let attach = Attach {
        session,
        name: Arc::clone(&opening.name),
        resumable: opening.resumable,
        takeover: opening.takeover,
        pulls: opening.pulls,
        resume: opening.resume.take(),
        credit: opening.credit,
        max_message_bytes: opening.max_message_bytes,
        ack_deadline: opening.ack_deadline,
        filter: opening.filter.take(),
        batch: opening.batch,
        until_drained: opening.until_drained,
        outbox,
        cut,
    };
    let (opened, heard) = oneshot::channel();
    let mut goodbye = Goodbye {
        handle: handle.clone(),
        session,
        lease: opening.lease.take(),
        told: false,
    };
    if handle.send(Input::Attach(attach, opened)).await.is_err() {
        goodbye.told = true;
        return Err(shutting_down());
    }
    match heard.await {
        Ok(Ok(accepted)) => Ok(Attached {
            accepted,
            messages,
            cut: cut_heard,
            goodbye,
        }),
        Ok(Err(refusal)) => {
            goodbye.told = true;
            Err(refusal.into())
        }
        Err(_stopped) => Err(shutting_down()),
    }
}

/// Tells the driver that the session has ended, exactly once: on every path, also if the
/// session's task is dropped.
#[derive(Debug)]
pub(super) struct Goodbye {
    handle: Handle,
    session: Session,
    /// Let go of once the driver has been told.
    lease: Option<Lease>,
    told: bool,
}

impl Goodbye {
    pub(super) async fn tell(&mut self, departure: Departure) {
        self.told = true;
        // A stopped driver holds nothing for the session any more.
        let _stopped = self
            .handle
            .send(Input::Detach(self.session, departure))
            .await;
    }
}

impl Drop for Goodbye {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        let handle = self.handle.clone();
        let lease = self.lease.take();
        let detach = Input::Detach(self.session, Departure::Lost);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _stopped = handle.send(detach).await;
                drop(lease);
            });
        }
    }
}
