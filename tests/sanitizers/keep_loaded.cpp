// Linked into programs under LeakSanitizer: a library that is unloaded before the report cannot be named in it, so
// what the Vulkan loader's drivers leak could not be told from leaks of ours.
extern "C" int dlclose(void*) {
  return 0;
}
