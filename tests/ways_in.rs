//! The ways to the program besides the command line: the GitHub action, releases and binstall, editors. Each runs as it would
//! for a user, with the program of this build on the path.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/check.rs"]
#[allow(dead_code)]
mod check;
#[path = "support/project.rs"]
#[allow(dead_code)]
mod project;

use project::{PROGRAM, Project, all};

/// `run:` of the step of a name, and its `env:` with the inputs put in.
fn step(action: &str, name: &str, inputs: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
    let part = action.split("    - name: ").find(|part| part.lines().next() == Some(name)).expect(name);
    // Jobs of a workflow stand deeper than the steps of an action.
    let depth = action.lines().find_map(|line| line.find("- name: ")).unwrap();
    let mut env = Vec::new();
    let mut run = String::new();
    let mut section = "";
    let own = |line: &&str| !line.get(depth..).is_some_and(|rest| rest.starts_with("- "));
    for line in part.lines().skip(1).take_while(own).filter(|line| !line.trim_start().starts_with("# ")) {
        let (indent, text) = (line.len() - line.trim_start().len(), line.trim());
        if indent == depth + 2 {
            section = text.split(':').next().unwrap();
            if let Some(inline) = text.strip_prefix("run: ").filter(|inline| *inline != "|") {
                run = inline.to_owned();
            }
        } else if section == "env" {
            let (key, value) = text.split_once(": ").unwrap();
            let input = value.trim_start_matches("${{ inputs.").trim_end_matches(" }}");
            let value = inputs.iter().find(|(name, _)| *name == input).expect(input).1;
            env.push((key.to_owned(), value.to_owned()));
        } else if section == "run" {
            run += &format!("{}\n", line.get(depth + 4..).unwrap_or(""));
        }
    }
    (run, env)
}

/// The action's own steps, in order, as the runner runs them. Installing is replaced by the program of this build, and uploading
/// by a look at what would be uploaded.
#[test]
fn the_actions_steps_run() {
    let text = std::fs::read_to_string(check::repository(".github/actions/leaselint/action.yml")).unwrap();
    let project = Project::new("action", "orders");
    let temp = project.0.join("runner temp");
    let run = |name: &str, inputs: &[(&str, &str)]| {
        let (script, env) = step(&text, name, inputs);
        let mut bash = project.command("bash");
        let action = check::repository(".github/actions/leaselint");
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script]).envs(env);
        bash.env("RUNNER_TEMP", &temp).env("GITHUB_ACTION_PATH", action);
        let tools = project.path().join("tools");
        let path = std::env::join_paths(
            std::iter::once(tools).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        bash.env("PATH", path.unwrap()).output().unwrap()
    };
    // The workspace asks for a toolchain of its own, and cargo does what it would, but for building.
    project.write("rust-toolchain.toml", "[toolchain]\nchannel = \"1.70\"\n");
    project.write("tools/rustup", "#!/bin/sh\ntest \"$1 $2 $3\" = 'toolchain install stable'\n");
    let cargo = format!(
        "#!/bin/sh\ntest \"$1 $2 $3\" = 'install --locked --path' && test -f \"$4/Cargo.toml\" && test \"$RUSTUP_TOOLCHAIN\" = stable \
        && mkdir -p \"$6/bin\" && cp {PROGRAM} \"$6/bin\"\n"
    );
    project.write("tools/cargo", &cargo);
    project.sh("chmod +x tools/*");
    let output = run("Install", &[]);
    assert!(output.status.success(), "{}", all(&output));

    let inputs = |paths, args, fail_on| [("paths", paths), ("args", args), ("fail-on", fail_on)];
    let output = run("Check", &inputs(".", "--min-severity warning", ""));
    assert!(output.status.success(), "{}", all(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("::error file=src/lock.rs,line="), "{}", all(&output));
    let sarif: serde_json::Value =
        serde_json::from_slice(&std::fs::read(temp.join("leaselint.sarif")).unwrap()).unwrap();
    assert!(!sarif["runs"][0]["results"].as_array().unwrap().is_empty());
    let upload = text.split("    - name: ").find(|part| part.starts_with("Upload")).unwrap();
    assert!(upload.contains("uses: github/codeql-action/upload-sarif@"));
    assert!(
        upload.contains("sarif_file: ${{ runner.temp }}/leaselint.sarif")
            && upload.contains("if: inputs.upload == 'true'")
    );

    assert_eq!(run("Judge", &inputs(".", "", "error")).status.code(), Some(1));
    assert_eq!(run("Judge", &inputs("deploy src/config.rs", "--rule bare-del", "error")).status.code(), Some(0));
}

/// Where the repository lies is said in one place, if it is known: a name that somebody else could take is said nowhere.
#[test]
fn everything_names_the_repository_of_the_manifest() {
    let readme = std::fs::read_to_string(check::repository("README.md")).unwrap();
    let repository = match env!("CARGO_PKG_REPOSITORY") {
        "" => "https://github.com/<owner>/leaselint",
        known => known,
    };
    let slug = repository.strip_prefix("https://github.com/").expect("a GitHub repository");
    assert!(readme.contains(&format!("repo: {repository}\n")), "the pre-commit recipe");
    assert!(readme.contains(&format!("uses: {slug}/.github/actions/leaselint@")), "the action recipe");
    let others = readme.matches("github.com/").count() - readme.matches(&format!("github.com/{slug}")).count();
    assert_eq!(others, 0, "README names another repository on GitHub");
}

/// `cargo binstall` looks where the release workflow uploads.
#[test]
fn binstall_finds_what_a_release_uploads() {
    let manifest: toml::Table = std::fs::read_to_string(check::repository("Cargo.toml")).unwrap().parse().unwrap();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let (version, target) = ("1.2.3", "x86_64-unknown-linux-gnu");
    let filled = |key: &str| {
        let text = binstall[key].as_str().unwrap();
        let values = [
            ("{ repo }", "https://github.com/a/leaselint"),
            ("{ name }", "leaselint"),
            ("{ version }", version),
            ("{ target }", target),
            ("{ bin }", "cargo-leaselint"),
            ("{ binary-ext }", ""),
        ];
        values.iter().fold(text.to_owned(), |text, (hole, value)| text.replace(hole, value))
    };
    let release = std::fs::read_to_string(check::repository(".github/workflows/release.yml")).unwrap();
    let name = release.lines().find_map(|line| line.trim().strip_prefix("name=")).unwrap();
    let name = name.trim_matches('"').replace("$GITHUB_REF_NAME", &format!("v{version}"));
    let name = name.replace("${{ matrix.target }}", target);
    assert!(release.contains("tar czf \"$name.tar.gz\" \"$name\""));
    let expected = format!("https://github.com/a/leaselint/releases/download/v{version}/{name}.tar.gz");
    assert_eq!(filled("pkg-url"), expected);
    assert_eq!(filled("bin-dir"), format!("{name}/cargo-leaselint"));
    assert_eq!(binstall["pkg-fmt"].as_str(), Some("tgz"));
    assert!(!filled("pkg-url").contains('{') && !filled("bin-dir").contains('{'));
}

/// The steps of the release workflow that need no network, for a target whose program is there.
#[test]
fn a_release_packs_what_binstall_unpacks() {
    let text = std::fs::read_to_string(check::repository(".github/workflows/release.yml")).unwrap();
    let project = Project::new("release", "orders-fixed");
    let target = "x86_64-unknown-linux-gnu";
    project.write("README.md", "");
    project.write("LICENSE-MIT", "");
    project.sh(&format!("mkdir -p target/{target}/release && cp {PROGRAM} target/{target}/release"));
    project.write(&format!("target/{target}/release/cargo-leaselint.d"), "");
    project.sh("mkdir -p fixtures/programs/orders-fixed && cp -r src Cargo.toml fixtures/programs/orders-fixed");
    let run = |name: &str| {
        let (script, _) = step(&text, name, &[]);
        let script = script.replace("${{ matrix.target }}", target);
        let mut bash = project.command("bash");
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script]).env("GITHUB_REF_NAME", "v1.2.3");
        bash.env("GITHUB_SERVER_URL", "https://github.com").env("GITHUB_REPOSITORY", "a/shop").output().unwrap()
    };
    let output = run("The manifest names this repository");
    let wanted = "Cargo.toml needs: repository = \"https://github.com/a/shop\"";
    assert!(!output.status.success() && all(&output).contains(wanted), "{}", all(&output));
    project.sh("sed -i 's|^name = .*|&\\nrepository = \"https://github.com/a/shop\"|' Cargo.toml");
    for name in ["The manifest names this repository", "It runs", "Pack"] {
        let output = run(name);
        assert!(output.status.success(), "{name}: {}", all(&output));
    }
    let listed = all(&project.sh(&format!("tar tzf leaselint-v1.2.3-{target}.tar.gz | sort")));
    let folder = format!("leaselint-v1.2.3-{target}");
    let wanted = ["", "LICENSE-MIT", "README.md", "cargo-leaselint"].map(|name| format!("{folder}/{name}\n")).concat();
    assert_eq!(listed, wanted);
}

/// The three editor recipes run one command, and what it prints is what rust-analyzer reads: one JSON object a line.
#[test]
fn the_editor_recipes_print_what_rust_analyzer_reads() {
    let readme = std::fs::read_to_string(check::repository("README.md")).unwrap();
    let commands: Vec<&str> = readme
        .match_indices("cargo check --workspace")
        .map(|(at, _)| readme[at..].split(['"', '\'']).next().unwrap())
        .collect();
    assert_eq!(commands.len(), 3, "VS Code, Helix, Neovim");
    assert!(commands.iter().all(|command| *command == commands[0]), "{commands:?}");
    for block in readme.split("```json\n").skip(1) {
        serde_json::from_str::<serde_json::Value>(block.split("```").next().unwrap())
            .expect("the VS Code recipe is JSON");
    }
    for block in readme.split("```toml\n").skip(1) {
        block.split("```").next().unwrap().parse::<toml::Table>().expect("TOML");
    }
    let project = Project::new("editor", "orders");
    // What `cargo check` itself prints is not asked here, and the clients of the program cannot be built everywhere.
    let cargo = "#!/bin/sh\ncase $1 in\n  leaselint) exec cargo-leaselint \"$@\" ;;\n  \
        check) echo '{\"reason\":\"build-finished\",\"success\":true}' ;;\nesac\n";
    project.write("bin/cargo", cargo);
    project.sh("chmod +x bin/cargo");
    let script = format!("PATH=$PWD/bin:$PATH; {}", commands[0]);
    let output = project.command("bash").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let mut found = 0;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        if message["reason"] == "compiler-message" {
            let spans = message["message"]["spans"].as_array().unwrap();
            let primary: Vec<_> = spans.iter().filter(|span| span["is_primary"] == true).collect();
            assert_eq!(primary.len(), 1, "{line}");
            assert!(project.path().join(primary[0]["file_name"].as_str().unwrap()).exists(), "{line}");
            assert!(message["message"]["rendered"].is_string() && message["message"]["code"]["code"].is_string());
            found += 1;
        }
    }
    assert!(found >= 5, "{found} messages");
}
