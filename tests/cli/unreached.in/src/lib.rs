mod a; #[path = "../other/moved.rs"] mod moved; mod inl { mod deep; }
