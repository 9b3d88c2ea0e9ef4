use super::*;

const SECRET: &str = "FAKEsecret1234";

fn parse(text: &str) -> Result<Location, LocationError> {
    Location::parse(&Address::from(text))
}

#[test]
fn every_accepted_spelling_is_understood() {
    for (text, shown) in [
        ("data/store", "data/store"),
        ("/data/store", "/data/store"),
        ("./s3:odd", "./s3:odd"),
        ("file:///data/a%20b", "/data/a b"),
        ("file:/data", "/data"),
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("az://container/a", "az://container/a"),
    ] {
        assert_eq!(parse(text).unwrap().to_string(), shown, "{text}");
    }
}

#[test]
fn what_is_refused_says_what_is_accepted_in_one_line() {
    for text in ["", "http://host/x", "https://bucket.s3.amazonaws.com/x", "memory:///", "ftp://host/x", "s4://b/p", "s3://"] {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains("s3:"), "{text}: {message}");
        assert!(!message.contains('\n'), "{text}: {message}");
    }
    for text in ["file://host/x", "file:x", "file:x:/y"] {
        assert!(matches!(parse(text), Err(LocationError::NotAbsolute { .. })), "{text}");
    }
}

#[test]
fn parts_that_no_store_reads_are_refused_not_ignored() {
    for text in ["s3://key@b/p", "s3://key:word@b/p", "gs://u@b/p", "az://c:w@a.blob.core.windows.net/p"] {
        assert!(matches!(parse(text), Err(LocationError::Extra { part: ExtraPart::UserInfo, .. })), "{text}");
    }
    for text in ["s3://b/p?region=x", "az://c/p?sig=y", "file:///d?x", "gs://b/p#f"] {
        assert!(matches!(parse(text), Err(LocationError::Extra { part: ExtraPart::Query, .. })), "{text}");
    }
    assert!(parse("abfss://container@account.dfs.core.windows.net/p").is_ok());
}

#[test]
fn no_rendering_of_anything_holds_a_typed_secret() {
    let mut rendered = Vec::new();
    for text in [
        format!("s3://key:{SECRET}@bucket/p"),
        format!("s3://bucket/p?secret={SECRET}"),
        format!("http://u:{SECRET}@host/p"),
        format!("file://u:{SECRET}@host/p"),
        format!("az://c:{SECRET}@a.blob.core.windows.net/p?sig={SECRET}"),
        format!("s3:key:{SECRET}@bucket"),
        format!("s3://key:{SECRET}@:port/p"),
    ] {
        let address = Address::from(text.as_str());
        rendered.extend([address.to_string(), format!("{address:?}")]);
        let error = Location::parse(&address).unwrap_err();
        rendered.extend([error.to_string(), format!("{error:?}"), format!("{error:#?}")]);
    }
    for text in rendered {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn a_store_of_the_cloud_is_never_printed() {
    let store = AmazonS3Builder::new().with_bucket_name("b").with_region("r").with_access_key_id("AKIAFAKE");
    let store = store.with_secret_access_key(SECRET).build().unwrap();
    let opened = Opened { bucket: Arc::new(store), path: Path::from("p") };
    assert!(!format!("{opened:?}{opened:#?}").contains(SECRET));
    let location = parse("s3://bucket/p").unwrap();
    assert_eq!(format!("{location:?}"), "Location s3://bucket/p");
}

#[test]
fn reading_never_creates_and_says_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("missing");
    let location = Location(Kind::Directory(missing.clone()));
    let error = location.open(Purpose::Read).unwrap_err();
    assert_eq!(error.to_string(), format!("no such directory: `{}`", missing.display()));
    assert!(!missing.exists());
}

#[test]
fn writing_creates_every_missing_directory() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("a/b/c d");
    let location = parse(deep.to_str().unwrap()).unwrap();
    let opened = location.open(Purpose::Write).unwrap();
    assert!(deep.is_dir());
    assert_eq!(opened.path, Path::default());
    assert!(location.open(Purpose::Read).is_ok());
    assert!(!location.boundary_files_enabled());
}

#[test]
fn a_file_is_not_a_directory() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = Location(Kind::Directory(path)).open(Purpose::Write).unwrap_err();
        assert!(matches!(error, LocationError::NotADirectory { .. }), "{error}");
    }
}

#[test]
fn a_child_is_named_so_that_another_process_finds_it() {
    assert_eq!(parse("s3://bucket/a/").unwrap().child("store").address(), Address::from("s3://bucket/a/store"));
    assert_eq!(parse("/a").unwrap().child("store").address(), Address::from("/a/store"));
    assert!(parse("relative").unwrap().address().0.starts_with('/'));
    assert!(parse("s3://bucket").unwrap().boundary_files_enabled());
}

#[tokio::test]
async fn a_refused_connection_is_explained_without_the_key_that_was_tried() {
    // A port that was free a moment ago: nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let store = AmazonS3Builder::new().with_bucket_name("bucket").with_region("r").with_access_key_id("AKIAFAKE");
    let store = store.with_secret_access_key(SECRET).with_allow_http(true).with_endpoint(format!("http://127.0.0.1:{port}"));
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let store = store.with_retry(retry).build().unwrap();
    let error = object_store::ObjectStoreExt::get(&store, &Path::from("a")).await.unwrap_err();
    let trouble = explain(&error);
    assert_eq!(trouble, Trouble::Unreachable, "{error}");
    let location = parse("s3://bucket/p").unwrap();
    let error = LocationError::Client { location, trouble };
    assert!(!format!("{error}{error:?}").contains(SECRET));
    assert!(error.to_string().starts_with("s3://bucket/p cannot be opened: cannot connect"));
}
