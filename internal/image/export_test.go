package image

// WithLdConf has the linker's configuration be read from another file than /etc/ld.so.conf.
func WithLdConf(o Options, file string) Options {
	o.ldConf = file
	return o
}
