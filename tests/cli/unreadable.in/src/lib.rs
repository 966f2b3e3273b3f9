mod binary;
mod broken;
pub fn f() {}
