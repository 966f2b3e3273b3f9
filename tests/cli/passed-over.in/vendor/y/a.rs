fn f(){}
