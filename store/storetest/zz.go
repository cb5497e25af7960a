package storetest

var cancelTests, replayTests, effectTests, limitTests, queueTests, inspectTests,
	eventTests, byteTests, hazardTests, caseTests, flatTests, randomTests, processTests []test
