/* The least an audit library can be: what ld.so itself takes to have one. */
unsigned la_version(unsigned version);

unsigned la_version(unsigned version)
{
	return version;
}
