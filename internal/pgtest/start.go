package pgtest

// Start starts a throwaway server for a program that is no test, and returns how
// its superuser connects, and what ends it. It ends with the process in any case.
// conf are settings of postgresql.conf, as in Options.
func Start(conf map[string]string) (dsn string, end func() error, err error) {
	e, err := newEngine(conf)
	if err != nil {
		return "", nil, err
	}
	return e.dsn(superRole, "postgres"), e.close, nil
}
