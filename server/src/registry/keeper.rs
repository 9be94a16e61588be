//! Keeps an ad hoc subscription until nobody has wanted it for its `linger`, then ends
//! its driver.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep};

use super::{
    Shared,
    ad_hoc::{Group, Running},
};
use crate::consumer::{Handle, Input};

/// Starts the keeper of `running`, which has a lease.
pub(super) fn start(shared: &Arc<Shared>, group: Group, running: &Running, linger: Duration) {
    let (shared, handle) = (Arc::clone(shared), running.handle.clone());
    let users = running.users.subscribe();
    tracing::info!(subscription = handle.subscription().name, "opened ad hoc");
    tokio::spawn(async move {
        keep(&shared, &group, users, handle.clone(), linger).await;
        let name = handle.subscription().name.clone();
        end(handle).await;
        shared.forget(&group);
        tracing::info!(subscription = name, "ad hoc subscription ended");
    });
}

/// Returns once the subscription is retired.
async fn keep(
    shared: &Shared,
    group: &Group,
    mut users: watch::Receiver<usize>,
    mut handle: Handle,
    linger: Duration,
) {
    loop {
        // No error can come while the registry has it.
        if users.wait_for(|users| *users == 0).await.is_err() {
            return;
        }
        let idle = async {
            // The driver leaves its group by itself after the same time. Until it has,
            // a new driver would be a second member of the group.
            sleep(linger).await;
            handle.away().await;
        };
        let is_idle = tokio::select! {
            () = idle => true,
            _ = users.wait_for(|users| *users > 0) => false,
        };
        if is_idle && shared.retire(group) {
            return;
        }
    }
}

async fn end(mut handle: Handle) {
    if handle.send(Input::Stop(Duration::ZERO)).await.is_ok() {
        handle.stopped().await;
    }
}
