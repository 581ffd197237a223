import"./c.QHIB4TKO.js";
