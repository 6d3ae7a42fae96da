//! Classic mode: each request runs its script from the top, as under php-fpm.
//!
//! Runs in: worker.

use super::Step;
use crate::host::Host;
use crate::php::{Php, Request};

/// Runs the script. Its exit status means nothing to a client, and whatever ended it, the next request starts afresh.
pub(super) fn serve(php: &mut Php<Host>, host: &mut Host, request: &Request<'_>) -> Step {
    php.run(host, request);
    Step::Next
}
