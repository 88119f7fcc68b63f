/* A library that is no engine. */
int unrelated(void) { return 0; }
