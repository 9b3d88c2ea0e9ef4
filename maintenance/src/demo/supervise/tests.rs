use std::os::unix::process::ExitStatusExt;

use super::super::events::Event;
use super::*;

/// SIGKILL.
const KILLED: i32 = 9;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

async fn told(supervisor: &mut Supervisor) -> (Role, Event) {
    match supervisor.next().await.unwrap().unwrap() {
        (role, Happening::Told(line)) => (role, line.event),
        (role, Happening::Ended { status, complaint }) => panic!("{role} ended: {status} {complaint}"),
    }
}

async fn ended(supervisor: &mut Supervisor) -> (Role, ExitStatus, String) {
    match supervisor.next().await.unwrap().unwrap() {
        (role, Happening::Ended { status, complaint }) => (role, status, complaint),
        (role, Happening::Told(line)) => panic!("{role} told {line:?}"),
    }
}

#[tokio::test]
async fn what_a_child_tells_comes_in_order_and_its_end_last() {
    let mut supervisor = Supervisor::default();
    let script =
        r#"echo '{"at":1,"event":"ready"}'; echo '{"at":2,"event":{"committed":{"sequence":7}}}'; echo why >&2; exit 3"#;
    supervisor.start(Role::Folder, shell(script)).unwrap();
    assert_eq!(told(&mut supervisor).await, (Role::Folder, Event::Ready));
    assert_eq!(told(&mut supervisor).await, (Role::Folder, Event::Committed { sequence: 7 }));
    let (role, status, complaint) = ended(&mut supervisor).await;
    assert_eq!((role, status.code(), complaint.as_str()), (Role::Folder, Some(3), "why"));
    assert!(supervisor.next().await.is_none());
}

#[tokio::test]
async fn a_killed_child_has_no_say_and_another_takes_its_role() {
    let mut supervisor = Supervisor::default();
    let role = Role::Writer(1);
    let script = r#"trap '' TERM; echo '{"at":1,"event":"ready"}'; while :; do read -r line || :; done"#;
    supervisor.start(role, shell(script)).unwrap();
    assert!(matches!(supervisor.start(role, shell("exit 0")), Err(SuperviseError::Twice { .. })));
    assert_eq!(told(&mut supervisor).await, (role, Event::Ready));
    supervisor.kill(role).unwrap();
    assert_eq!(ended(&mut supervisor).await.1.signal(), Some(KILLED));
    supervisor.start(role, shell("exit 0")).unwrap();
    assert!(ended(&mut supervisor).await.1.success());
}

#[tokio::test]
async fn a_child_that_is_asked_to_end_sees_its_input_close() {
    let mut supervisor = Supervisor::default();
    supervisor.start(Role::Folder, shell(r#"cat; echo '{"at":9,"event":"done"}'"#)).unwrap();
    supervisor.ask_to_end(Role::Folder);
    assert_eq!(told(&mut supervisor).await.1, Event::Done);
    assert!(ended(&mut supervisor).await.1.success());
}

#[tokio::test]
async fn a_line_that_is_no_event_is_an_error_and_a_torn_one_is_not() {
    let mut supervisor = Supervisor::default();
    let script = r#"echo hello; echo '{"at":1,"event":"ready"}'; printf '{"at":'"#;
    supervisor.start(Role::Writer(0), shell(script)).unwrap();
    let error = supervisor.next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "writer 1 wrote `hello`: expected an event");
    assert!(ended(&mut supervisor).await.1.success());

    supervisor.start(Role::Writer(0), shell(r#"printf '{"at":'"#)).unwrap();
    assert!(ended(&mut supervisor).await.1.success());
}

#[tokio::test]
async fn a_child_that_tells_more_than_the_queue_holds_waits_and_loses_nothing() {
    let mut supervisor = Supervisor::default();
    let count = QUEUE * 3;
    let script = format!(r#"i=0; while [ $i -lt {count} ]; do i=$((i+1)); echo "{{\"at\":$i,\"event\":\"ready\"}}"; done"#);
    supervisor.start(Role::Folder, shell(&script)).unwrap();
    for at in 1..=count {
        let Some(Ok((_, Happening::Told(line)))) = supervisor.next().await else { panic!("ended before {at}") };
        assert_eq!(line.at, at as u64);
    }
    assert!(ended(&mut supervisor).await.1.success());
}

#[tokio::test]
async fn ending_all_leaves_nobody() {
    let mut supervisor = Supervisor::default();
    let mut pids = Vec::new();
    for writer in 0..3 {
        supervisor.start(Role::Writer(writer), shell(r#"echo "{\"at\":$$,\"event\":\"ready\"}"; exec cat"#)).unwrap();
        let Some(Ok((_, Happening::Told(line)))) = supervisor.next().await else { panic!("ended") };
        pids.push(line.at);
    }
    supervisor.end_all().await.unwrap();
    assert!(supervisor.roles().is_empty());
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is still there");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_by_its_role() {
    let error = Supervisor::default().start(Role::Auditor, Command::new("/no/such/program")).unwrap_err();
    assert_eq!(error.to_string(), "auditor cannot be started: entity not found");
}

#[tokio::test]
async fn a_child_knows_when_its_parent_is_gone() {
    let (parent, child) = tokio::io::duplex(8);
    drop(parent);
    closed(child).await;
}
