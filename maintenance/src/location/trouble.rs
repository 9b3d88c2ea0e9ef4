//! What went wrong between here and a bucket, told in one line.

use std::error::Error;
use std::io;
use std::sync::Arc;

use object_store::client::{HttpError, HttpErrorKind};

use super::redacted;

/// The most characters of a message that nobody here has classified. Servers answer with whole documents.
const MAX_DETAIL_CHARACTERS: usize = 200;

/// The most causes that are followed. Chains are a handful deep; a cycle would be a bug elsewhere.
const MAX_CAUSES: usize = 32;

/// What is wrong with a bucket or a directory, by what its owner does next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The bucket or container is not there.
    #[error("no such bucket or container")]
    NoSuchBucket,
    /// The bucket is there, the object is not.
    #[error("no such object: `{path}`")]
    NoSuchObject {
        /// The object.
        path: String,
    },
    /// Who asks is known and may not.
    #[error("permission denied: these credentials may not do this here")]
    PermissionDenied,
    /// Who asks is not known.
    #[error("not authenticated: the credentials are wrong or have expired")]
    Unauthenticated,
    /// There is nothing to authenticate with.
    #[error("no credentials: none in the environment, and this machine has no identity service")]
    NoCredentials,
    /// Nobody listens there.
    #[error("cannot connect: wrong endpoint or region, or the network is down")]
    Unreachable,
    /// Somebody listens and does not answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The bucket is in another region than the environment says.
    #[error("the bucket is in another region than the environment says")]
    WrongRegion,
    /// The disk is full.
    #[error("no space left on the device")]
    NoSpace,
    /// The file system may only be read.
    #[error("the file system is read-only")]
    ReadOnly,
    /// The name was taken, or a condition did not hold.
    #[error("`{path}` changed or exists already")]
    Changed {
        /// The object.
        path: String,
    },
    /// A message of the client's own that fits none of the above, redacted and shortened.
    #[error("{store}: {detail}")]
    Said {
        /// Which client.
        store: &'static str,
        /// What it said.
        detail: String,
    },
}

/// What is behind an error of a bucket.
pub fn explain(error: &object_store::Error) -> Trouble {
    use object_store::Error as E;
    if let Some(trouble) = by_text(error).or_else(|| by_cause(error)) {
        return trouble;
    }
    match error {
        E::NotFound { path, .. } => Trouble::NoSuchObject { path: redacted(path) },
        E::PermissionDenied { .. } => Trouble::PermissionDenied,
        E::Unauthenticated { .. } => Trouble::Unauthenticated,
        E::AlreadyExists { path, .. } | E::Precondition { path, .. } | E::NotModified { path, .. } => {
            Trouble::Changed { path: redacted(path) }
        }
        // Its messages quote the value of a variable, which may be a key that was put into the wrong one.
        E::Generic { store: "Config", source } => {
            Trouble::Said { store: "environment", detail: unquoted(&shortened(source.as_ref())) }
        }
        E::Generic { store, source } => Trouble::Said { store, detail: shortened(source.as_ref()) },
        // The rest are the client's own affair; the enum may grow.
        other @ (E::InvalidPath { .. }
        | E::JoinError { .. }
        | E::NotSupported { .. }
        | E::NotImplemented { .. }
        | E::UnknownConfigurationKey { .. }
        | _) => Trouble::Said { store: "object store", detail: shortened(other) },
    }
}

/// The same for an error of a caller of the bucket, when a bucket's error is among its causes.
pub fn explain_chain(error: &(dyn Error + 'static)) -> Option<Trouble> {
    causes(error).find_map(|cause| {
        let plain = cause.downcast_ref::<object_store::Error>();
        let shared = || cause.downcast_ref::<Arc<object_store::Error>>().map(AsRef::as_ref);
        plain.or_else(shared).map(explain)
    })
}

/// An error with what lies under it, as one line: in our own words where a bucket's error is among its causes.
pub fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = shortened(error);
    let mut tell = |cause: String| {
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    };
    match explain_chain(error) {
        Some(trouble) => tell(trouble.to_string()),
        None => causes(error).skip(1).for_each(|cause| tell(shortened(cause))),
    }
    line
}

/// Bodies say what status codes do not: a 404 for a missing bucket is not one for a missing object.
fn by_text(error: &object_store::Error) -> Option<Trouble> {
    let text = causes(error).map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"]) {
        Some(Trouble::NoSuchBucket)
    } else if says(&["PermanentRedirect", "redirect without LOCATION", "AuthorizationHeaderMalformed"]) {
        Some(Trouble::WrongRegion)
    } else if says(&["169.254.169.254", "metadata.google.internal", "169.254.170.2"]) {
        // The address of a cloud machine's identity service, asked last, when nothing else gave credentials.
        Some(Trouble::NoCredentials)
    } else if says(&["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AuthenticationFailed", "code: 401"]) {
        Some(Trouble::Unauthenticated)
    } else if says(&["AccessDenied", "AuthorizationFailure", "code: 403"]) {
        Some(Trouble::PermissionDenied)
    } else {
        None
    }
}

fn by_cause(error: &object_store::Error) -> Option<Trouble> {
    causes(error).find_map(|cause| {
        if let Some(http) = cause.downcast_ref::<HttpError>() {
            return match http.kind() {
                HttpErrorKind::Connect => Some(Trouble::Unreachable),
                HttpErrorKind::Timeout => Some(Trouble::TimedOut),
                HttpErrorKind::Request | HttpErrorKind::Interrupted | HttpErrorKind::Decode | HttpErrorKind::Unknown | _ => {
                    None
                }
            };
        }
        let kind = cause.downcast_ref::<io::Error>()?.kind();
        [
            (io::ErrorKind::PermissionDenied, Trouble::PermissionDenied),
            (io::ErrorKind::StorageFull, Trouble::NoSpace),
            (io::ErrorKind::ReadOnlyFilesystem, Trouble::ReadOnly),
            (io::ErrorKind::ConnectionRefused, Trouble::Unreachable),
            (io::ErrorKind::TimedOut, Trouble::TimedOut),
        ]
        .into_iter()
        .find_map(|(of, trouble)| (kind == of).then_some(trouble))
    })
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
    .take(MAX_CAUSES)
}

fn shortened(error: &dyn Error) -> String {
    let line = redacted(&error.to_string()).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_DETAIL_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// `text` without what stands between double quotes.
fn unquoted(text: &str) -> String {
    text.split('"').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "***" }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Body(&'static str);

    fn not_found(body: &'static str) -> object_store::Error {
        object_store::Error::NotFound { path: "a/b".into(), source: Box::new(Body(body)) }
    }

    #[test]
    fn a_missing_bucket_is_not_a_missing_object() {
        for body in ["<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>", "The specified bucket does not exist."] {
            assert_eq!(explain(&not_found(body)), Trouble::NoSuchBucket);
        }
        assert_eq!(explain(&not_found("<Code>NoSuchKey</Code>")), Trouble::NoSuchObject { path: "a/b".into() });
    }

    #[test]
    fn a_refusal_says_whether_one_is_known() {
        let denied = object_store::Error::PermissionDenied { path: "p".into(), source: Box::new(Body("403")) };
        assert_eq!(explain(&denied), Trouble::PermissionDenied);
        let unknown = object_store::Error::PermissionDenied {
            path: "p".into(),
            source: Box::new(Body("<Code>InvalidAccessKeyId</Code>")),
        };
        assert_eq!(explain(&unknown), Trouble::Unauthenticated);
    }

    #[test]
    fn a_refused_connection_and_a_full_disk_are_told_apart() {
        let of = |kind: io::ErrorKind| object_store::Error::Generic { store: "S3", source: Box::new(io::Error::from(kind)) };
        assert_eq!(explain(&of(io::ErrorKind::ConnectionRefused)), Trouble::Unreachable);
        assert_eq!(explain(&of(io::ErrorKind::StorageFull)), Trouble::NoSpace);
        assert_eq!(explain(&of(io::ErrorKind::PermissionDenied)), Trouble::PermissionDenied);
        let slow = HttpError::new(HttpErrorKind::Timeout, Body("late"));
        assert_eq!(explain(&object_store::Error::Generic { store: "S3", source: Box::new(slow) }), Trouble::TimedOut);
    }

    #[test]
    fn a_bucket_s_error_is_found_below_another() {
        #[derive(Debug, thiserror::Error)]
        #[error("open failed")]
        struct Outer(#[source] Arc<object_store::Error>);
        assert_eq!(explain_chain(&Outer(Arc::new(not_found("NoSuchBucket")))), Some(Trouble::NoSuchBucket));
        assert_eq!(explain_chain(&Body("nothing of a bucket")), None);
    }

    #[test]
    fn a_chain_is_one_line_that_says_nothing_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("open failed")]
        struct Outer(#[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("the list failed{}", if self.0.is_some() { ": late" } else { "" })]
        struct Inner(#[source] Option<Body>);
        assert_eq!(in_one_line(&Outer(Inner(None))), "open failed: the list failed");
        assert_eq!(in_one_line(&Outer(Inner(Some(Body("late"))))), "open failed: the list failed: late");
        let full = io::Error::new(io::ErrorKind::StorageFull, Trouble::NoSpace.to_string());
        let refused = object_store::Error::Generic { store: "S3", source: Box::new(full) };
        assert_eq!(in_one_line(&refused), "Generic S3 error: no space left on the device");
    }

    #[test]
    fn a_value_of_the_environment_is_not_quoted() {
        let body = Body("failed to parse \"FAKESECRET\" as boolean");
        let text = explain(&object_store::Error::Generic { store: "Config", source: Box::new(body) }).to_string();
        assert_eq!(text, "environment: failed to parse *** as boolean");
    }

    #[test]
    fn what_a_server_says_is_one_short_line_without_signatures() {
        let body = Body("first\nsecond https://host/x?sig=FAKESECRET\nthird");
        let text = explain(&object_store::Error::Generic { store: "Azure", source: Box::new(body) }).to_string();
        assert_eq!(text, "Azure: first second https://host/x?*** third");
    }
}
