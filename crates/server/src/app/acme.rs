//! Certificates from an authority (ACME, RFC 8555): asked for when there is none, and again when a third of its time is left.
//!
//! Only writes files: `certificates` sees that they have changed. A failure is said, and tried again; what serves, serves on.
//! Called by `app`. Runs in: server, on the main thread; files are read and written on a blocking thread.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use instant_acme::{
    Account, AccountBuilder, AuthorizationHandle, AuthorizationStatus, ChallengeType, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::config::{Acme, Challenge, format_duration};
use crate::dispatch::Pool;
use crate::edge::Sites;
use crate::edge::tls::{self, Challenges, private};

/// Time between two looks at the settings, and at the clock.
const LOOK: Duration = Duration::from_secs(2);
/// Time between two looks at the certificate.
const CHECK: Duration = Duration::from_hours(1);
/// First pause after a failure; it doubles up to the second. Let's Encrypt lets an account fail five times an hour.
const FIRST_PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(6);
/// Longest time for a certificate, with all that the authority does.
const PATIENCE: Duration = Duration::from_mins(5);
/// Longest time for one of the authority's decisions.
const DECISION: Duration = Duration::from_mins(2);

/// Sees to it until it is dropped.
#[derive(Debug)]
pub(super) struct Renewal(JoinHandle<()>);

impl Renewal {
    pub(super) fn start(sites: Arc<Sites<Vec<Vec<Pool>>>>) -> Self {
        Self(tokio::spawn(run(sites)))
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(sites: Arc<Sites<Vec<Vec<Pool>>>>) {
    let (mut known, mut next, mut pause) = (None, Instant::now(), FIRST_PAUSE);
    loop {
        let settings = sites.acme();
        if settings != known {
            (known, next, pause) = (settings, Instant::now(), FIRST_PAUSE);
        }
        if let Some(acme) = known.as_ref().filter(|_| next <= Instant::now()) {
            let outcome = match timeout(PATIENCE, see_to(acme, &sites.tls.challenges)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(anyhow!("the authority takes too long")),
            };
            sites.tls.challenges.clear();
            match outcome {
                Ok(()) => (next, pause) = (Instant::now() + CHECK, FIRST_PAUSE),
                Err(error) => {
                    let domains = acme.domains.join(" ");
                    let again = format_duration(pause);
                    warn!(
                        domains,
                        error = format!("{error:#}"),
                        again,
                        "no certificate from the authority"
                    );
                    next = Instant::now() + pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
        sleep(LOOK).await;
    }
}

/// Has a certificate made if it is time.
async fn see_to(acme: &Acme, challenges: &Challenges) -> anyhow::Result<()> {
    let (file, domains) = (acme.file(), acme.domains.clone());
    if spawn_blocking(move || tls::serves(&file, &domains)).await? {
        return Ok(());
    }
    info!(
        domains = acme.domains.join(" "),
        directory = acme.directory,
        "asking for a certificate"
    );
    let account = account(acme).await?;
    let names: Vec<Identifier> = acme.domains.iter().cloned().map(Identifier::Dns).collect();
    let mut order = account
        .new_order(&NewOrder::new(&names))
        .await
        .context("ordering a certificate")?;
    answer(&mut order, acme, challenges).await?;
    let policy = RetryPolicy::default().timeout(DECISION);
    let status = order
        .poll_ready(&policy)
        .await
        .context("waiting for the authority's decision")?;
    if !matches!(status, OrderStatus::Ready | OrderStatus::Valid) {
        bail!("the authority refuses: {}", reasons(&mut order).await);
    }
    let key = order.finalize().await.context("asking for the certificate")?;
    let chain = order
        .poll_certificate(&policy)
        .await
        .context("fetching the certificate")?;
    let file = acme.file();
    let shown = file.display().to_string();
    // One file, so that nobody sees a certificate with the key of another.
    spawn_blocking(move || private::write(&file, &format!("{chain}{key}")))
        .await?
        .with_context(|| format!("writing {shown}"))?;
    info!(
        domains = acme.domains.join(" "),
        file = shown,
        "certificate received"
    );
    Ok(())
}

/// Puts everything where the authority looks, then has it look.
async fn answer(order: &mut Order, acme: &Acme, challenges: &Challenges) -> anyhow::Result<()> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let authorization = authorization.context("asking what the authority wants to see")?;
        match authorization.status {
            AuthorizationStatus::Pending => show(authorization, acme, challenges).await?,
            // Seen not long ago.
            AuthorizationStatus::Valid => {}
            other => bail!("the authority has a name for us that is {other:?}"),
        }
    }
    Ok(())
}

async fn show(
    mut authorization: AuthorizationHandle<'_>,
    acme: &Acme,
    challenges: &Challenges,
) -> anyhow::Result<()> {
    let (kind, word) = match acme.challenge {
        Challenge::Http => (ChallengeType::Http01, "http-01"),
        Challenge::TlsAlpn => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
    };
    let mut challenge = authorization
        .challenge(kind)
        .ok_or_else(|| anyhow!("the authority does not take {word} for this name"))?;
    let proof = challenge.key_authorization();
    match acme.challenge {
        Challenge::Http => challenges.answer(&challenge.token, proof.as_str()),
        Challenge::TlsAlpn => {
            challenges.shake(&challenge.identifier().to_string(), proof.digest().as_ref())?;
        }
    }
    challenge.set_ready().await.context("having the authority look")
}

/// What the authority says of names that it does not believe to be ours.
async fn reasons(order: &mut Order) -> String {
    let mut all = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let Ok(mut authorization) = authorization else {
            continue;
        };
        // What was kept is from before it looked.
        let _ = authorization.refresh().await;
        let name = authorization.identifier().to_string();
        let errors = authorization
            .challenges
            .iter()
            .filter_map(|challenge| challenge.error.as_ref());
        all.extend(errors.map(|error| format!("{name}: {error}")));
    }
    if all.is_empty() {
        let said = order.state().error.as_ref().map(ToString::to_string);
        return said.unwrap_or_else(|| "it does not say why".to_owned());
    }
    all.join("; ")
}

/// The account of before, or a new one.
async fn account(acme: &Acme) -> anyhow::Result<Account> {
    let folder = acme.folder.clone();
    // Authorities give few of what could not be kept.
    spawn_blocking(move || private::try_folder(&folder))
        .await?
        .with_context(|| format!("writing in {} (tls.acme.folder)", acme.folder.display()))?;
    let file = account_file(acme);
    let path = file.clone();
    let kept = spawn_blocking(move || -> std::io::Result<Option<String>> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    });
    let reading = || format!("reading the account {}", file.display());
    if let Some(text) = kept.await?.with_context(reading)? {
        let kept = serde_json::from_str(&text).with_context(reading)?;
        return builder(acme)?
            .from_credentials(kept)
            .await
            .context("taking up the account");
    }
    let contact: Vec<&str> = acme.contact.iter().map(String::as_str).collect();
    let wanted = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let (account, made) = builder(acme)?
        .create(&wanted, acme.directory.clone(), None)
        .await
        .with_context(|| format!("opening an account at {}", acme.directory))?;
    let text = serde_json::to_string(&made)?;
    let path = file.clone();
    spawn_blocking(move || private::write(&path, &text))
        .await?
        .with_context(|| format!("writing {}", file.display()))?;
    Ok(account)
}

fn builder(acme: &Acme) -> anyhow::Result<AccountBuilder> {
    match &acme.ca {
        Some(path) => Account::builder_with_root(path)
            .with_context(|| format!("reading {} (tls.acme.ca)", path.display())),
        None => Account::builder().context("reading the authorities that the system trusts"),
    }
}

/// One for each authority.
fn account_file(acme: &Acme) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = acme
        .directory
        .trim_start_matches("https://")
        .chars()
        .map(plain)
        .collect();
    Path::new(&acme.folder).join(format!("account-{name}.json"))
}
