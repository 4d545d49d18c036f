package integration_test
func runClient(name string) int { return 1 }
