//! A place named on the command line: where a store lives, and the bucket that holds it. Nothing here prints a secret.

mod redact;
mod trouble;

use std::fmt;
use std::fs::{self, File};
use std::path::{Component, Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::Url;

pub use redact::redacted;
pub use trouble::{Trouble, explain, explain_chain, in_one_line};

/// How long one request may take, unless the environment says otherwise. A slot or an SSTable of tens of MiB fits over a
/// slow line; the log's own deadlines are what bounds a call.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection may take to come up, unless the environment says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What is accepted, as every refusal says it.
const ACCEPTED: &str = "a directory, or a file:, s3:, az: or gs: URL";

/// A place as it was typed, not yet looked at.
///
/// It may hold a credential that somebody typed by mistake, so it prints itself redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// The text as it was typed, for the arguments of another process. Not to be printed.
    pub fn as_typed(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Address {
        Address(text.to_owned())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.0))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address {self}")
    }
}

/// What a verb wants of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read: nothing is created, a place that is not there is an error.
    Read,
    /// To write: a directory that is not there is created.
    Write,
}

/// A place that was understood.
///
/// - Its URL has no password, no query and no fragment; a user name only where Azure names the container by it.
/// - Nothing was asked of the bucket yet, and nothing created.
#[derive(Clone, PartialEq, Eq)]
pub struct Location(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Directory(PathBuf),
    Bucket(Box<InCloud>),
}

#[derive(Clone, PartialEq, Eq)]
struct InCloud {
    cloud: Cloud,
    url: Url,
    path: Path,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cloud {
    Amazon,
    Azure,
    Google,
}

/// A bucket, and the path in it under which the store lives.
#[derive(Clone)]
pub struct Opened {
    /// The bucket. Its client does not retry: the log has the one retry policy.
    pub bucket: Arc<dyn ObjectStore>,
    /// The store's path. Empty where the bucket is the store's own directory.
    pub path: Path,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SUBTLE: a store's own Debug prints its keys.
        f.debug_struct("Opened").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Why a place cannot be used. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    /// No place at all.
    #[error("no place given: expected {ACCEPTED}")]
    Empty,
    /// A URL that is none.
    #[error("`{address}` is not a URL: expected {ACCEPTED}")]
    NotAUrl {
        /// What was typed.
        address: Address,
        /// What is wrong with it.
        source: url::ParseError,
    },
    /// A `file:` URL that names a machine or a relative path.
    #[error("`{address}` does not name a directory of this machine: expected `file:///` and an absolute path")]
    NotAbsolute {
        /// What was typed.
        address: Address,
    },
    /// A scheme that no store here has.
    #[error("`{address}` has scheme `{scheme}`: expected {ACCEPTED}; write `./` before a path that has a colon")]
    Scheme {
        /// What was typed.
        address: Address,
        /// Its scheme.
        scheme: String,
    },
    /// A URL of a known scheme without a bucket or with a path that no object can have.
    #[error("`{address}` names no bucket: expected for example `s3://bucket/path/of/the/store`")]
    NoBucket {
        /// What was typed.
        address: Address,
    },
    /// A URL with a part that would silently be ignored.
    #[error("`{address}` has {part}, which is not read: credentials and options come from the environment")]
    Extra {
        /// What was typed.
        address: Address,
        /// Which part.
        part: ExtraPart,
    },
    /// A directory that a verb that reads was given.
    #[error("no such directory: `{}`", directory.display())]
    NoDirectory {
        /// The directory.
        directory: PathBuf,
    },
    /// A file where a directory was expected.
    #[error("`{}` is not a directory", directory.display())]
    NotADirectory {
        /// The path.
        directory: PathBuf,
    },
    /// The operating system refused a directory.
    #[error("directory `{}` cannot be used: {}", directory.display(), source.kind())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The bucket's client could not be set up.
    #[error("{location} cannot be opened: {trouble}")]
    Client {
        /// The place.
        location: Location,
        /// Why.
        trouble: Trouble,
    },
}

/// A part of a URL that means nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraPart {
    /// What stands before an `@`.
    UserInfo,
    /// What stands after a `?` or a `#`.
    Query,
}

impl fmt::Display for ExtraPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExtraPart::UserInfo => "a user name or password",
            ExtraPart::Query => "a query or fragment",
        })
    }
}

impl Location {
    /// Understands what was typed. Asks nothing of any bucket and creates nothing.
    ///
    /// # Errors
    ///
    /// One that says what was expected, for everything but a path or a URL of an accepted scheme.
    pub fn parse(address: &Address) -> Result<Location, LocationError> {
        if address.0.is_empty() {
            return Err(LocationError::Empty);
        }
        if scheme_of(&address.0).is_none() {
            return Ok(Location(Kind::Directory(PathBuf::from(&address.0))));
        }
        let url = Url::parse(&address.0).map_err(|source| LocationError::NotAUrl { address: address.clone(), source })?;
        let parsed = ObjectStoreScheme::parse(&url).ok();
        let bucket = |cloud: Cloud, path: Path| Location(Kind::Bucket(Box::new(InCloud { cloud, url: url.clone(), path })));
        let location = match (url.scheme(), parsed) {
            ("file", Some((ObjectStoreScheme::Local, _))) if address.0.get(4..).is_some_and(|rest| rest.starts_with(":/")) => {
                let directory = url.to_file_path().map_err(|()| LocationError::NotAbsolute { address: address.clone() })?;
                Location(Kind::Directory(directory))
            }
            ("file", _) => return Err(LocationError::NotAbsolute { address: address.clone() }),
            ("s3" | "s3a", Some((ObjectStoreScheme::AmazonS3, path))) => bucket(Cloud::Amazon, path),
            ("gs", Some((ObjectStoreScheme::GoogleCloudStorage, path))) => bucket(Cloud::Google, path),
            (_, Some((ObjectStoreScheme::MicrosoftAzure, path))) if url.scheme() != "https" => bucket(Cloud::Azure, path),
            ("s3" | "s3a" | "gs" | "az" | "azure" | "adl" | "abfs" | "abfss", _) => {
                return Err(LocationError::NoBucket { address: address.clone() });
            }
            (scheme, _) => return Err(LocationError::Scheme { scheme: scheme.to_owned(), address: address.clone() }),
        };
        match extra_part(&url) {
            Some(part) => Err(LocationError::Extra { address: address.clone(), part }),
            None => Ok(location),
        }
    }

    /// A directory of this machine, whatever its name looks like.
    pub fn of_directory(directory: &FilePath) -> Location {
        Location(Kind::Directory(directory.to_owned()))
    }

    /// The directory, where this is one.
    pub fn directory(&self) -> Option<&FilePath> {
        match &self.0 {
            Kind::Directory(directory) => Some(directory),
            Kind::Bucket(_) => None,
        }
    }

    /// The place `name` under this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Location {
        match &self.0 {
            Kind::Directory(directory) => Location(Kind::Directory(directory.join(name))),
            Kind::Bucket(place) => {
                let InCloud { cloud, mut url, path } = place.as_ref().clone();
                url.set_path(&format!("{}/{name}", url.path().trim_end_matches('/')));
                Location(Kind::Bucket(Box::new(InCloud { cloud, url, path: path.join(name) })))
            }
        }
    }

    /// What to type to name this place again, in another process too.
    pub fn address(&self) -> Address {
        match &self.0 {
            Kind::Directory(directory) => Address(from_here(directory).display().to_string()),
            Kind::Bucket(place) => Address(place.url.to_string()),
        }
    }

    /// What `boundary_files_enabled` of SlateDB's settings must be: false on a local file system, whose listing has no
    /// start to begin at.
    pub fn boundary_files_enabled(&self) -> bool {
        match self.0 {
            Kind::Directory(_) => false,
            Kind::Bucket(_) => true,
        }
    }

    /// The bucket of this place. Blocks for a few calls to the file system where it is a directory; asks nothing of a
    /// bucket in the cloud, so a missing one shows at the first request: see [`explain`].
    ///
    /// # Errors
    ///
    /// A directory that is not there (for [`Purpose::Read`]), is none, or may not be used; a client that cannot be set up.
    pub fn open(&self, purpose: Purpose) -> Result<Opened, LocationError> {
        match &self.0 {
            Kind::Directory(directory) => self.open_directory(directory, purpose),
            Kind::Bucket(place) => {
                let InCloud { cloud, url, path } = place.as_ref();
                let bucket = client(*cloud, url)
                    .map_err(|error| LocationError::Client { location: self.clone(), trouble: explain(&error) })?;
                Ok(Opened { bucket, path: path.clone() })
            }
        }
    }

    fn open_directory(&self, directory: &FilePath, purpose: Purpose) -> Result<Opened, LocationError> {
        let refused = |source| LocationError::Directory { directory: directory.to_owned(), source };
        match fs::metadata(directory) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(LocationError::NotADirectory { directory: directory.to_owned() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => match purpose {
                Purpose::Read => return Err(LocationError::NoDirectory { directory: directory.to_owned() }),
                Purpose::Write => create_durably(directory).map_err(refused)?,
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(LocationError::NotADirectory { directory: directory.to_owned() });
            }
            Err(error) => return Err(refused(error)),
        }
        let bucket = LocalFileSystem::new_with_prefix(directory)
            .map_err(|error| LocationError::Client { location: self.clone(), trouble: explain(&error) })?;
        Ok(Opened { bucket: Arc::new(bucket.with_fsync(true)), path: Path::default() })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Directory(directory) => directory.display().fmt(f),
            Kind::Bucket(place) => f.write_str(&redacted(place.url.as_str())),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location {self}")
    }
}

/// The scheme, when `text` looks like a URL. One letter and a colon is a path.
fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let letters = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    (letters && scheme.len() > 1 && scheme.starts_with(|first: char| first.is_ascii_alphabetic())).then_some(scheme)
}

/// The part of `url` that its store would silently not read.
fn extra_part(url: &Url) -> Option<ExtraPart> {
    let container = matches!(url.scheme(), "az" | "abfs" | "abfss");
    if url.password().is_some() || (!url.username().is_empty() && !container) {
        return Some(ExtraPart::UserInfo);
    }
    (url.query().is_some() || url.fragment().is_some()).then_some(ExtraPart::Query)
}

/// A path that means the same in a child process.
fn from_here(directory: &FilePath) -> PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}

/// Creates `directory` and those above it that are missing, and makes their names durable.
fn create_durably(directory: &FilePath) -> std::io::Result<()> {
    let mut made = PathBuf::new();
    for component in from_here(directory).components() {
        let parent = made.clone();
        made.push(component);
        if !matches!(component, Component::Normal(_)) {
            continue;
        }
        match fs::create_dir(&made) {
            Ok(()) => File::open(&parent)?.sync_all()?,
            Err(error) if made.is_dir() => drop(error),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The client of a bucket in the cloud: everything but bucket and path comes from the environment.
fn client(cloud: Cloud, url: &Url) -> object_store::Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: REQUEST_TIMEOUT };
    let timeouts = [
        (ClientConfigKey::Timeout, "TIMEOUT", REQUEST_TIMEOUT),
        (ClientConfigKey::ConnectTimeout, "CONNECT_TIMEOUT", CONNECT_TIMEOUT),
    ];
    let prefix = match cloud {
        Cloud::Amazon => "AWS",
        Cloud::Azure => "AZURE",
        Cloud::Google => "GOOGLE",
    };
    let unset = timeouts.into_iter().filter(|(_, name, _)| std::env::var_os(format!("{prefix}_{name}")).is_none());
    let defaults = unset.map(|(key, _, duration)| (key, format!("{} seconds", duration.as_secs())));
    Ok(match cloud {
        Cloud::Amazon => {
            let builder = AmazonS3Builder::from_env().with_url(url.as_str()).with_retry(retry);
            let builder =
                defaults.fold(builder, |builder, (key, value)| builder.with_config(AmazonS3ConfigKey::Client(key), value));
            Arc::new(builder.build()?)
        }
        Cloud::Azure => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(url.as_str()).with_retry(retry);
            let builder =
                defaults.fold(builder, |builder, (key, value)| builder.with_config(AzureConfigKey::Client(key), value));
            Arc::new(builder.build()?)
        }
        Cloud::Google => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(url.as_str()).with_retry(retry);
            let builder =
                defaults.fold(builder, |builder, (key, value)| builder.with_config(GoogleConfigKey::Client(key), value));
            Arc::new(builder.build()?)
        }
    })
}

#[cfg(test)]
mod tests;
