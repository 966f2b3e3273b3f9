//! A git repository with one of the programs in it, to try things in.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_cargo-leaselint");

/// A git repository with a copy of one of the programs in `fixtures/programs`, gone when the test ends.
pub struct Project(pub PathBuf);

impl Project {
    pub fn new(name: &str, program: &str) -> Project {
        let path = std::env::temp_dir().join(format!("leaselint-repository-{}-{name}", std::process::id()));
        let source = super::check::repository("fixtures/programs").join(program);
        for file in super::check::files(&source) {
            let target = path.join("shop").join(file.strip_prefix(&source).unwrap());
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(&file, target).unwrap();
        }
        let project = Project(path);
        project.sh("git init -q -b main && git add -A && git commit -qm start");
        project
    }

    pub fn path(&self) -> PathBuf {
        self.0.join("shop")
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn append(&self, name: &str, text: &str) {
        let before = std::fs::read_to_string(self.path().join(name)).unwrap();
        self.write(name, &(before + text));
    }

    /// A command as a user of this machine would have it: the program on the path, git with nobody's settings.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let bin = Path::new(PROGRAM).parent().unwrap();
        let path = std::env::join_paths(
            std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        command.current_dir(self.path()).env("PATH", path.unwrap()).env("NO_COLOR", "1").env_remove("CI");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "a").env(format!("GIT_{who}_EMAIL"), "a@example.org");
        }
        command
    }

    pub fn sh(&self, script: &str) -> Output {
        let output = self.command("bash").args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}\n{}", all(&output));
        output
    }

    pub fn leaselint(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.command(PROGRAM).args(args).output().unwrap();
        (output.status.code(), all(&output))
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn all(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
