package storetest

var hazardTests, caseTests, flatTests, randomTests, processTests []test
