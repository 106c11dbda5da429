/* An audit library that does nothing: what ld.so itself does wrong under any. */
__attribute__((visibility("default"))) unsigned la_version(unsigned version)
{
	return version;
}
