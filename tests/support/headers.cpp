// test_headers: its precompiled headers are what counts.
int main() {}
