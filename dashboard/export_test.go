package dashboard

// Settings and Start are for tests.
type Settings = settings

var Start = start
