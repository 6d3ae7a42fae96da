//! HTTP: from the listening socket to a `dispatch::Request`, and back.
